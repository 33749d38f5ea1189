// TCP ends of the benchmarks, each in a process of its own:
//   serve PODS                  accepts and closes connections at the first pods' addresses; prints a line
//                               when ready, and its CPU time in ms when it ends
//   connect ADDRESS PORT COUNT  makes COUNT connections, 8 at a time; prints {count, ms, cpuMs} as JSON
//   watch ADDRESS PORT CLIENT   connects as client number CLIENT without a pause until standard input ends;
//                               prints as JSON when each failed connection started and ended, in milliseconds
//                               since 1970 with fractions, and the number of all connections
//   rate SERVICES PER-SECOND    makes that many connections a second to the first Services in turn until
//                               standard input ends; prints as JSON when each failed connection started, in
//                               milliseconds since 1970 with fractions
import { once } from "node:events";
import { connect, createServer } from "node:net";
import { clusterIP, laterPodIP, POD_PORT, podIP, SERVICE_PORT } from "./cluster-objects.ts";

const NO_WAIT = 8;
const PATIENCE = 1000;
/**
 * The client has a pod's address that is not an endpoint. Connections from outside the cluster would be
 * masqueraded.
 */
const clientIP = (client: number): string => laterPodIP(100_000 + client);
/** Ports of one client. Each is reused only after all others. */
const [FIRST_PORT, PORTS] = [1024, 64_000];

const now = (): number => performance.timeOrigin + performance.now();
const cpuMs = (): number => (process.cpuUsage().user + process.cpuUsage().system) / 1000;

/**
 * Opens a connection and resets it, so that its port can be reused at once.
 * @returns whether it was opened
 */
function connects(
  address: string,
  port: number,
  localAddress = clientIP(0),
  localPort?: number,
): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({
      host: address,
      port,
      localAddress,
      ...(localPort === undefined ? {} : { localPort }),
    });
    const finish = (opened: boolean) => {
      clearTimeout(timer);
      // Node delays the reset of a connection until it is open.
      if (opened) socket.resetAndDestroy();
      else socket.destroy();
      resolve(opened);
    };
    // If this process had to wait for a processor, answers that have come are read before the time is over.
    const timer = setTimeout(() => setImmediate(finish, false), PATIENCE);
    socket.once("connect", () => finish(true));
    socket.once("error", () => finish(false));
  });
}

async function serve(pods: number): Promise<void> {
  for (let pod = 0; pod < pods; pod++) {
    const server = createServer((socket) => socket.on("error", () => {}).resume());
    server.listen({ host: podIP(pod), port: POD_PORT, backlog: 1024 });
    await once(server, "listening");
  }
  const before = cpuMs();
  process.once("SIGTERM", () => {
    process.stdout.write(`${cpuMs() - before}\n`, () => process.exit());
  });
  console.log("ready");
}

async function connectAll(address: string, port: number, count: number): Promise<void> {
  const [cpu, started] = [cpuMs(), performance.now()];
  let left = count;
  const worker = async () => {
    while (left-- > 0) {
      if (!(await connects(address, port))) throw new Error(`${address}:${port} does not answer`);
    }
  };
  await Promise.all(Array.from({ length: NO_WAIT }, worker));
  console.log(JSON.stringify({ count, ms: performance.now() - started, cpuMs: cpuMs() - cpu }));
}

/**
 * The kernel tracks a refused connection for 10 s, with its endpoint. Another connection from the same port
 * would go to the same endpoint, so ports are used in turn, not at random.
 */
async function watch(address: string, port: number, client: number): Promise<void> {
  let ended = false;
  process.stdin.once("end", () => {
    ended = true;
  });
  process.stdin.resume();
  const failures: (readonly [started: number, ended: number])[] = [];
  let made = 0;
  console.log("ready");
  for (; !ended; made++) {
    const started = now();
    const localPort = FIRST_PORT + (made % PORTS);
    if (!(await connects(address, port, clientIP(client), localPort))) failures.push([started, now()]);
  }
  console.log(JSON.stringify({ made, failures }));
}

/** Starts connections when they are due, however long others take. */
async function rate(services: number, perSecond: number): Promise<void> {
  let ended = false;
  process.stdin.once("end", () => {
    ended = true;
  });
  process.stdin.resume();
  const failures: number[] = [];
  const open = new Set<Promise<void>>();
  const began = now();
  let made = 0;
  console.log("ready");
  while (!ended) {
    for (; made < ((now() - began) * perSecond) / 1000; made++) {
      const started = now();
      const one = connects(clusterIP(made % services), SERVICE_PORT).then((opened) => {
        if (!opened) failures.push(started);
        open.delete(one);
      });
      open.add(one);
    }
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  await Promise.all(open);
  console.log(JSON.stringify(failures));
}

const [mode, address = "", port = "", number = ""] = process.argv.slice(2);
if (mode === "serve") await serve(Number(address));
else if (mode === "connect") await connectAll(address, Number(port), Number(number));
else if (mode === "rate") await rate(Number(address), Number(port));
else await watch(address, Number(port), Number(number));
