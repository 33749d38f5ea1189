import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { fileURLToPath } from "node:url";
import { cachePath, clusterDirectory } from "../cluster-files.ts";
import { type ClusterSize, clusterIP, NODE_NAME, POD_PORT, podIP, SERVICE_PORT } from "../cluster-objects.ts";
import { type Figure, median, time, type Work } from "../figures.ts";
import { childrenOf, cpuOf, type Memory, peakBytes, togetherBytes } from "../memory.ts";
import { bringPodsHere, programRules } from "../packets.ts";
import { mustRun, nftProxy, pause } from "../programs.ts";

const LOAD = fileURLToPath(new URL("../connection-load.pl", import.meta.url));
const SECONDS = 3;
/** Loads without and with `observe`, in turns, because what else the machine does changes. */
const ROUNDS = 3;
const SETTINGS = {
  acct: 1,
  timestamp: 1,
  // The table must not fill.
  tcp_timeout_time_wait: 10,
  tcp_timeout_close: 5,
  udp_timeout: 5,
};

type Protocol = "tcp" | "udp";

/** Connections a second: fewer than two processors can make, and more. */
const RATES: Readonly<Record<Protocol, readonly number[]>> = {
  tcp: [2000, 5000, 8000, 20_000, 50_000],
  udp: [2000, 20_000],
};

/** Of different sizes, because the objects are saved by size. */
const SIZES: Readonly<Record<Protocol, ClusterSize>> = {
  tcp: { services: 100, endpoints: 1 },
  udp: { services: 101, endpoints: 1, protocol: "UDP" },
};

/**
 * Each processor has a client and a server of its own. If the scheduler could move them, its placement would
 * make a larger difference than `observe`: two processors make more connections if both ends share one.
 */
const PROCESSORS = cpus().map((_, index) => index);

/** A program that stays on one processor. */
const pinned = (processor: number, ...argv: readonly (string | number)[]) =>
  ["taskset", "-c", processor, "perl", LOAD, ...argv].map(String);

/** What the clients did. Times are milliseconds. */
interface Load {
  readonly made: number;
  readonly perSecond: number;
  readonly failed: number;
  readonly cpu: number;
  /** How long connections took, from the socket to the end; of the slower processor. */
  readonly p50: number;
  readonly p99: number;
  readonly longest: number;
}

/** Also what `observe` did meanwhile. */
interface ObservedLoad extends Load {
  readonly seen: number;
  readonly dropped: number;
  readonly nodeCpu: number;
  readonly socatCpu: number;
  readonly memory: Memory;
}

async function load(protocol: Protocol, rate: number): Promise<Load> {
  const own = rate / PROCESSORS.length;
  const runs = await Promise.all(
    PROCESSORS.map((one) => mustRun(pinned(one, protocol, clusterIP(one), SERVICE_PORT, own, SECONDS))),
  );
  const loads = runs.map(({ stdout }) => {
    const [made = 0, seconds = 0, failed = 0, ...times] = stdout.split(" ").map(Number);
    const [cpu = 0, p50 = 0, p99 = 0, longest = 0] = times.map((one) => one * 1000);
    return { made, perSecond: made / seconds, failed, cpu, p50, p99, longest };
  });
  const most = (field: keyof Load) => Math.max(...loads.map((one) => one[field]));
  return {
    made: sum(loads, "made"),
    perSecond: sum(loads, "perSecond"),
    failed: sum(loads, "failed"),
    cpu: sum(loads, "cpu"),
    p50: most("p50"),
    p99: most("p99"),
    longest: most("longest"),
  };
}

async function observedLoad(protocol: Protocol, rate: number): Promise<ObservedLoad> {
  const from = await clusterDirectory(SIZES[protocol]);
  const output = cachePath(`observe-${protocol}`);
  const argv = nftProxy(
    "observe",
    "--follow",
    "-o",
    "json",
    "--from",
    from,
    `--hostname-override=${NODE_NAME}`,
  );
  const command = spawn("sh", ["-c", `exec "$@" > ${output}`, "sh", ...argv], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  const pid = command.pid ?? 0;
  let said = "";
  command.stderr.on("data", (chunk) => {
    said += chunk;
  });
  while (!said.includes("Ctrl-C ends it")) await pause(50);
  const before = cpuOf(pid);
  const made = await load(protocol, rate);
  await pause(1000);
  const { own, children } = cpuOf(pid);
  // Reading it all the time would take part of the processors.
  const memory = {
    node: peakBytes(pid),
    nft: Math.max(...childrenOf(pid).map(peakBytes)),
    together: togetherBytes(pid),
  };
  command.kill("SIGINT");
  await once(command, "close");
  const summary = readFileSync(output, "utf8").trim().split("\n").at(-1) ?? "";
  const { events, dropped } = JSON.parse(summary);
  return {
    ...made,
    seen: events.began ?? 0,
    dropped,
    nodeCpu: own - before.own,
    socatCpu: children - before.children,
    memory,
  };
}

const perConnection = (ms: number, connections: number) => `${((ms * 1000) / connections).toFixed(0)} us`;

function clientText(loads: readonly Load[]): string {
  const middle = (field: keyof Load) => median(loads.map((one) => one[field]));
  return (
    `${Math.round(middle("perSecond")).toLocaleString("en")}/s made; one took p50 ${perConnection(middle("p50"), 1)}, ` +
    `p99 ${perConnection(middle("p99"), 1)}, longest ${time(middle("longest"))}, ` +
    `CPU ${perConnection(sum(loads, "cpu"), sum(loads, "made"))}; ${sum(loads, "failed")} failed`
  );
}

function sum<Field extends string>(loads: readonly Readonly<Record<Field, number>>[], field: Field): number {
  return loads.reduce((total, one) => total + one[field], 0);
}

async function measure(protocol: Protocol, rate: number): Promise<Figure> {
  const [alone, observed]: [Load[], ObservedLoad[]] = [[], []];
  for (let round = 0; round < ROUNDS; round++) {
    for (const isObserved of [false, true]) {
      // The notifications of these deletions are not of the load.
      await mustRun(["conntrack", "-F"]);
      if (isObserved) observed.push(await observedLoad(protocol, rate));
      else alone.push(await load(protocol, rate));
    }
  }
  const seen = sum(observed, "seen");
  const share = ((100 * seen) / sum(observed, "made")).toFixed(1);
  const [node, socat] = [sum(observed, "nodeCpu"), sum(observed, "socatCpu")];
  const memory = observed.map((one) => one.memory).sort((a, b) => b.together - a.together)[0];
  return {
    work: `observe --follow, ${rate.toLocaleString("en")} ${protocol.toUpperCase()} connections a second asked for`,
    value:
      `${clientText(observed)}; ${share} % seen, ${sum(observed, "dropped")} notifications lost; ` +
      `CPU for each: Node.js ${perConnection(node, seen)}, socat ${perConnection(socat, seen)}`,
    floor: clientText(alone),
    ...(memory && { memory }),
  };
}

async function startServer(processor: number) {
  const [program = "", ...args] = pinned(processor, "serve", podIP(processor), POD_PORT);
  const server = spawn(program, args, { stdio: ["ignore", "pipe", "inherit"] });
  await once(server.stdout, "data");
  return server;
}

async function run(): Promise<readonly Figure[]> {
  await bringPodsHere();
  const figures: Figure[] = [];
  for (const protocol of ["tcp", "udp"] as const) {
    await programRules(SIZES[protocol]);
    for (const [name, value] of Object.entries(SETTINGS))
      writeFileSync(`/proc/sys/net/netfilter/nf_conntrack_${name}`, String(value));
    const servers = await Promise.all(PROCESSORS.map(startServer));
    for (const rate of RATES[protocol]) figures.push(await measure(protocol, rate));
    for (const server of servers) server.kill();
  }
  return figures;
}

/** Measures what it costs to observe many connections, what it delays, and what is lost. */
export const observe: Work = {
  name: "observe",
  summary: "observe --follow at up to 20,000 connections a second",
  run,
};
