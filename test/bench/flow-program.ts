// node flow-program.ts ADDRESS PORT POD_PORT: receives packets on a port of any address, and sends UDP to an
// address, each packet from a different address and port, until its standard input ends. Then prints as JSON
// how many packets it sent a second, and how many our rules refused.
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { laterPodIP } from "./cluster-objects.ts";

const [address = "", port = "", podPort = ""] = process.argv.slice(2);
const NO_WAIT = 100;
/**
 * The number of client addresses: enough that no address and port is reused while the kernel still tracks the
 * flow.
 */
const CLIENTS = 60_000;

const sink = createSocket("udp4").bind(Number(podPort));
await once(sink, "listening");
console.log("ready");

let isOver = false;
process.stdin.once("end", () => {
  isOver = true;
});
process.stdin.resume();

/**
 * Returns the number of packets that the kernel dropped because its table of connections was full. Sending
 * these fails, too.
 */
function dropped(): number {
  const [names = "", ...processors] = readFileSync("/proc/self/net/stat/nf_conntrack", "utf8")
    .trim()
    .split("\n");
  const column = names.split(/\s+/).indexOf("drop");
  return processors.reduce((sum, line) => sum + Number.parseInt(line.split(/\s+/)[column] ?? "", 16), 0);
}

const [droppedBefore, started] = [dropped(), performance.now()];
let [sent, failed] = [0, 0];
while (!isOver) {
  // The client has a pod's address that is not an endpoint. Connections from outside the cluster would be
  // masqueraded.
  const client = laterPodIP(1 + ((sent / NO_WAIT) % CLIENTS));
  const sockets = Array.from({ length: NO_WAIT }, () => createSocket("udp4").on("error", () => {}));
  await Promise.all(
    sockets.map(async (socket) => {
      socket.bind(0, client);
      await once(socket, "listening");
      const error = await new Promise<Error | null>((resolve) =>
        socket.send("x", Number(port), address, resolve),
      );
      if (error !== null) failed++;
      socket.close();
    }),
  );
  sent += sockets.length;
  // Node closes sockets and reports the end of the input in other phases of the event loop, so this yields to
  // them.
  await new Promise((resolve) => setImmediate(resolve));
}
sink.close();
const perSecond = (sent * 1000) / (performance.now() - started);
console.log(JSON.stringify({ perSecond, refused: failed - (dropped() - droppedBefore) }));
