// The process that makes connections inside a machine's network namespace. It serves requests over Node's IPC
// channel: a request is `{ id, connections }`, and its answer is `{ id, result }` or `{ id, error }`. It is
// plain JavaScript, so that `node` starts it at once.
import { observeAll } from "./prober.mjs";

process.on("message", async ({ id, connections }) => {
  try {
    process.send({ id, result: await observeAll(connections) });
  } catch (error) {
    process.send({ id, error: error instanceof Error ? error.message : String(error) });
  }
});
// The lab's process has ended, so this one ends, too.
process.on("disconnect", () => process.exit());
