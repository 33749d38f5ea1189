// node neighbour-program.ts ADDRESS PORT POD...: accepts connections at the addresses of these pods, and connects to an address
// and port again and again until its standard input ends. Prints a line of JSON when another pod than before answers, {pod, at},
// and for each connection that nobody answers, {failed, at}: `at` is when it was made, milliseconds since 1970.
import { once } from "node:events";
import { connect, createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { laterPodIP, POD_PORT } from "./cluster-objects.ts";

const [address = "", port = "", ...pods] = process.argv.slice(2);

/** Between two connections, milliseconds: what this program tells is as exact. */
const EVERY = 5;
const PATIENCE = 1000;
/** Pods' addresses that are no endpoints: from an address outside the cluster, connections would be masqueraded. */
const CLIENTS = Array.from({ length: 20 }, (_, client) => laterPodIP(200_000 + client));

const now = (): number => performance.timeOrigin + performance.now();
const say = (line: object): void => console.log(JSON.stringify(line));

for (const [index, host] of pods.entries()) {
  const server = createServer((socket) => socket.on("error", () => {}).end(String(index)));
  server.listen({ host, port: POD_PORT, backlog: 1024 });
  await once(server, "listening");
}

/** Which pod answers a new connection, or why none does. */
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
