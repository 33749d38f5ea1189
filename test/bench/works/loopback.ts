import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { type Figure, percentile, type Work } from "../figures.ts";
import { ownProgram } from "../programs.ts";

const PORT = 30_080;
const ECHOES = 5000;
const CONNECTIONS = 1000;
const BYTES = 2 ** 30;
const CHUNK = Buffer.alloc(2 ** 18);

/** Starts a program, and waits until it is ready. */
async function started(role: "echo" | "relay"): Promise<ChildProcess> {
  const [program = "", ...args] = ownProgram("loopback-program.ts", role, String(PORT));
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "inherit"] });
  await once(child.stdout, "data");
  return child;
}

async function connection(host: string): Promise<Socket> {
  const socket = connect({ host, port: PORT, noDelay: true });
  await once(socket, "connect");
  return socket;
}

/** Measures the round trip of one byte on an open connection, p50 in milliseconds. */
async function echoTime(host: string): Promise<number> {
  const socket = await connection(host);
  const times: number[] = [];
  for (let i = 0; i < ECHOES; i++) {
    const before = performance.now();
    socket.write("x");
    await once(socket, "data");
    times.push(performance.now() - before);
  }
  socket.destroy();
  return percentile(times, 0.5);
}

/** Measures connecting and the round trip of one byte, p50 in milliseconds. */
async function connectionTime(host: string): Promise<number> {
  const times: number[] = [];
  for (let i = 0; i < CONNECTIONS; i++) {
    const before = performance.now();
    const socket = await connection(host);
    socket.write("x");
    await once(socket, "data");
    times.push(performance.now() - before);
    socket.destroy();
  }
  return percentile(times, 0.5);
}

/** Measures the throughput in both directions, bytes per second. */
async function throughput(host: string): Promise<number> {
  const socket = await connection(host);
  let received = 0;
  const all = new Promise<void>((resolve) => {
    socket.on("data", (chunk: Buffer) => {
      received += chunk.length;
      if (received >= BYTES) resolve();
    });
  });
  const before = performance.now();
  for (let sent = 0; sent < BYTES; sent += CHUNK.length) {
    if (!socket.write(CHUNK)) await once(socket, "drain");
  }
  await all;
  socket.destroy();
  return BYTES / ((performance.now() - before) / 1000);
}

const microseconds = (ms: number): string => `${(ms * 1000).toFixed(0)} us`;
const gigabits = (bytes: number): string => `${((8 * bytes) / 1e9).toFixed(1)} Gbit/s`;

async function compare(
  work: string,
  measure: (host: string) => Promise<number>,
  text: (value: number) => string,
): Promise<Figure> {
  const direct = await measure("127.0.0.2");
  const relayed = await measure("127.0.0.1");
  return {
    work: `NodePort on loopback: ${work}`,
    value: text(relayed),
    floor: `${text(direct)} (direct)`,
    ratio: relayed / direct,
  };
}

/** Measures the cost of the userspace relay for loopback NodePorts. */
export const loopback: Work = {
  name: "loopback",
  summary: "throughput and latency of NodePorts on loopback, against a direct connection",
  run: async () => {
    const programs = [await started("echo"), await started("relay")];
    try {
      return [
        await compare("round trip of a byte, p50", echoTime, microseconds),
        await compare("connect and round trip of a byte, p50", connectionTime, microseconds),
        await compare("throughput in both directions at once", throughput, gigabits),
      ];
    } finally {
      for (const program of programs) program.kill();
    }
  },
};
