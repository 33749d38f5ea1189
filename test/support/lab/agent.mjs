// The process that the lab runs inside each machine's network namespace. It serves requests over Node's IPC
// channel: a request is `{ id, request: { kind: "configure" | "listen" | "observe", ... } }`, and its answer
// is `{ id, result }` or `{ id, error }`. It is plain JavaScript, so that `node` starts it at once.
import { writeFileSync } from "node:fs";
import { observeAll } from "./prober.mjs";
import { listen } from "./responder.mjs";

process.on("message", async ({ id, request }) => {
  try {
    process.send({ id, result: (await serve(request)) ?? null });
  } catch (error) {
    process.send({ id, error: error instanceof Error ? error.message : String(error) });
  }
});
// The lab's process has ended, so this one ends, too.
process.on("disconnect", () => process.exit());

async function serve(request) {
  switch (request.kind) {
    case "configure":
      return configure(request.settings);
    case "listen":
      return listen(request.addresses, request.ports);
    case "observe":
      return observeAll(request.connections);
    default:
      throw new Error(`unknown request ${request.kind}`);
  }
}

function configure(settings) {
  for (const { path, value, optional } of settings) {
    try {
      writeFileSync(`/proc/sys/net/${path}`, value);
    } catch (error) {
      if (!optional) throw error;
    }
  }
}
