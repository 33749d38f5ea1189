import { spawn } from "node:child_process";
import { once } from "node:events";
import { type ClusterSize, clusterIP, POD_PORT, podIP, SERVICE_PORT } from "../cluster-objects.ts";
import { type Figure, median, type Work } from "../figures.ts";
import { clearTables } from "../kernel.ts";
import { bringPodsHere, onOneProcessor, programKubeProxyShape, programRules } from "../packets.ts";
import { mustRun, ownProgram } from "../programs.ts";

const SIZE: ClusterSize = { services: 10_000, endpoints: 10 };
const CONNECTIONS = 20_000;
const ROUNDS = 3;

/**
 * The cost of connections: their number a second, and the CPU time of one, at both ends and in the kernel in
 * between.
 */
interface Rate {
  readonly perSecond: number;
  readonly cpuMicroseconds: number;
}

/** Connects to an address while pods accept connections. */
async function rateOf(address: string, port: number): Promise<Rate> {
  const [program = "", ...args] = ownProgram("tcp-program.ts", "serve", String(SIZE.endpoints));
  const server = spawn(program, args, { stdio: ["ignore", "pipe", "inherit"] });
  await once(server.stdout, "data");
  const { stdout } = await mustRun(
    ownProgram("tcp-program.ts", "connect", address, String(port), String(CONNECTIONS)),
  );
  server.kill();
  const [serverCpu] = (await once(server.stdout, "data")) as [Buffer];
  const { count, ms, cpuMs } = JSON.parse(stdout) as { count: number; ms: number; cpuMs: number };
  return { perSecond: (count * 1000) / ms, cpuMicroseconds: ((cpuMs + Number(serverCpu)) * 1000) / count };
}

/** Returns the median of some rounds. */
async function rate(address: string, port: number): Promise<Rate> {
  const rates: Rate[] = [];
  for (let round = 0; round < ROUNDS; round++) rates.push(await rateOf(address, port));
  return {
    perSecond: median(rates.map(({ perSecond }) => perSecond)),
    cpuMicroseconds: median(rates.map(({ cpuMicroseconds }) => cpuMicroseconds)),
  };
}

const text = ({ perSecond, cpuMicroseconds }: Rate): string =>
  `${Math.round(perSecond).toLocaleString("en")}/s, CPU ${cpuMicroseconds.toFixed(0)} us each`;

async function compare(): Promise<Figure> {
  await programKubeProxyShape(SIZE);
  const theirs = await rate(clusterIP(0), SERVICE_PORT);
  await programRules(SIZE);
  const own = await rate(clusterIP(0), SERVICE_PORT);
  await clearTables();
  const direct = await rate(podIP(0), POD_PORT);
  return {
    work: `TCP connections through one ClusterIP, ${SIZE.services.toLocaleString("en")} Services, both ends on one processor`,
    value: text(own),
    floor: `${text(theirs)} (kube-proxy's shape); ${text(direct)} (no rules, straight to the pod)`,
    ratio: own.cpuMicroseconds / theirs.cpuMicroseconds,
  };
}

/** Measures the cost of the rules for a TCP connection. */
export const connectionRate: Work = {
  name: "connection-rate",
  summary: "TCP connections a second, against kube-proxy's shape",
  run: async () => {
    await bringPodsHere();
    return [await onOneProcessor(compare)];
  },
};
