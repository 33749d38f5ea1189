// node neighbour-program.ts ADDRESS PORT POD...: accepts connections at the addresses of these pods, and
// repeatedly connects to an address and port until its standard input ends. Prints a line of JSON when a
// different pod answers, {pod, at}, and for each unanswered connection, {failed, at}. `at` is the start of
// the connection, milliseconds since 1970.
import { once } from "node:events";
import { connect, createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { laterPodIP, POD_PORT } from "./cluster-objects.ts";

const [address = "", port = "", ...pods] = process.argv.slice(2);

/** Pause between two connections, which is also the precision of the reported times. Milliseconds. */
const EVERY = 5;
const PATIENCE = 1000;
/**
 * The clients have addresses of pods that are not endpoints. Connections from outside the cluster would be
 * masqueraded.
 */
const CLIENTS = Array.from({ length: 20 }, (_, client) => laterPodIP(200_000 + client));

const now = (): number => performance.timeOrigin + performance.now();
const say = (line: object): void => console.log(JSON.stringify(line));

for (const [index, host] of pods.entries()) {
  const server = createServer((socket) => socket.on("error", () => {}).end(String(index)));
  server.listen({ host, port: POD_PORT, backlog: 1024 });
  await once(server, "listening");
}

/** Returns the pod that answers a new connection, or the reason why none does. */
function answer(localAddress: string): Promise<number | string> {
  return new Promise((resolve) => {
    const socket = connect({ host: address, port: Number(port), localAddress });
    const finish = (found: number | string) => {
      clearTimeout(timer);
      socket.destroy();
      resolve(found);
    };
    const timer = setTimeout(finish, PATIENCE, "timeout");
    socket.once("data", (data) => finish(Number(data.toString())));
    socket.once("error", (error: NodeJS.ErrnoException) => finish(error.code ?? error.message));
  });
}

let isOver = false;
process.stdin.once("end", () => {
  isOver = true;
});
process.stdin.resume();
let last: number | undefined;
for (let made = 0; !isOver; made++) {
  const at = now();
  const found = await answer(CLIENTS[made % CLIENTS.length] ?? "");
  if (typeof found === "string") say({ failed: found, at });
  else if (found !== last) {
    last = found;
    say({ pod: found, at });
  }
  await sleep(EVERY);
}
process.exit();
