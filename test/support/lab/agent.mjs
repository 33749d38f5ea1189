// The process that the lab keeps inside each machine's network namespace. It serves requests over Node's IPC channel:
// { id, request: { kind: "configure" | "listen" | "observe", ... } } -> { id, result } or { id, error }.
// Plain JavaScript, so that `node` starts it at once.
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
// The lab's process is gone, and with it the reason to stay.
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
