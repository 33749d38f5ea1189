import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { cachePath, clusterDirectory } from "../cluster-files.ts";
import { type ClusterSize, clusterIP, NODE_NAME, POD_PORT, SERVICE_PORT } from "../cluster-objects.ts";
import { type Figure, time, type Work } from "../figures.ts";
import { MemoryWatch } from "../memory.ts";
import { bringPodsHere, programRules } from "../packets.ts";
import { mustRun, nftProxy, pause } from "../programs.ts";

const LOAD = fileURLToPath(new URL("../connection-load.pl", import.meta.url));
/** Connections a second: as many as a processor can follow, and more. */
const RATES = [2000, 20_000];
const SECONDS = 6;
const SETTINGS = {
  acct: 1,
  timestamp: 1,
  // The table must not fill.
  tcp_timeout_time_wait: 10,
  tcp_timeout_close: 5,
  udp_timeout: 5,
};

type Protocol = "tcp" | "udp";

/** Of different sizes, because the objects are saved by size. */
const SIZES: Readonly<Record<Protocol, ClusterSize>> = {
  tcp: { services: 100, endpoints: 10 },
  udp: { services: 101, endpoints: 10, protocol: "UDP" },
};

/** What the clients did. */
interface Load {
  readonly made: number;
  readonly perSecond: number;
  readonly failed: number;
  readonly cpuMs: number;
  readonly longestMs: number;
}

async function load(protocol: Protocol, rate: number): Promise<Load> {
  await mustRun(["conntrack", "-F"]);
  const { stdout } = await mustRun(
    ["perl", LOAD, protocol, clusterIP(0), SERVICE_PORT, rate, SECONDS].map(String),
  );
  const [made = 0, seconds = 0, failed = 0, cpu = 0, longest = 0] = stdout.split(" ").map(Number);
  return { made, perSecond: made / seconds, failed, cpuMs: cpu * 1000, longestMs: longest * 1000 };
}

/** Returns the CPU time of a process, milliseconds. */
function cpuMs(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1)?.split(" ") ?? [];
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

function childrenOf(pid: number): number[] {
  const text = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8");
  return text.trim().split(" ").filter(Boolean).map(Number);
}

async function measure(protocol: Protocol, rate: number, size: ClusterSize): Promise<Figure> {
  const alone = await load(protocol, rate);
  const objects = ["--from", await clusterDirectory(size), `--hostname-override=${NODE_NAME}`];
  const [program = "", ...args] = nftProxy("observe", "--follow", "-o", "json", ...objects);
  const output = cachePath(`observe-${protocol}`);
  const command = spawn("sh", ["-c", `exec "$0" "$@" > ${output}`, program, ...args], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  const pid = command.pid ?? 0;
  let said = "";
  command.stderr.on("data", (chunk) => {
    said += chunk;
  });
  while (!said.includes("Ctrl-C ends it")) await pause(50);
  const memory = new MemoryWatch(pid);
  const [own, others] = [cpuMs(pid), childrenOf(pid)];
  const before = own + others.reduce((sum, child) => sum + cpuMs(child), 0);
  const observed = await load(protocol, rate);
  await pause(1000);
  const programs = childrenOf(pid).reduce((sum, child) => sum + cpuMs(child), 0);
  const used = { node: cpuMs(pid) - own, all: cpuMs(pid) + programs - before };
  command.kill("SIGINT");
  await once(command, "close");
  const { events, dropped, omitted } = JSON.parse(
    readFileSync(output, "utf8").trim().split("\n").at(-1) ?? "",
  );
  const seen = events.began ?? 0;
  const each = (ms: number) => `${((ms * 1000) / seen).toFixed(0)} us`;
  return {
    work: `observe --follow, ${rate.toLocaleString("en")} ${protocol.toUpperCase()} connections a second asked for`,
    value:
      `${Math.round(observed.perSecond).toLocaleString("en")}/s made, ${((100 * seen) / observed.made).toFixed(1)} % seen, ` +
      `${dropped} notifications lost, ${omitted} lines omitted; CPU for each: Node.js ${each(used.node)}, socat ${each(used.all - used.node)}; ` +
      `client: ${observed.failed} failed, CPU ${((observed.cpuMs * 1000) / observed.made).toFixed(0)} us, longest ${time(observed.longestMs)}`,
    floor:
      `${Math.round(alone.perSecond).toLocaleString("en")}/s made; client: ${alone.failed} failed, ` +
      `CPU ${((alone.cpuMs * 1000) / alone.made).toFixed(0)} us, longest ${time(alone.longestMs)}`,
    memory: memory.stop(),
  };
}

async function run(): Promise<readonly Figure[]> {
  await bringPodsHere();
  const figures: Figure[] = [];
  for (const protocol of ["tcp", "udp"] as const) {
    const size = SIZES[protocol];
    await programRules(size);
    for (const [name, value] of Object.entries(SETTINGS))
      writeFileSync(`/proc/sys/net/netfilter/nf_conntrack_${name}`, String(value));
    const server = spawn("perl", [LOAD, "serve", String(POD_PORT)], { stdio: ["ignore", "pipe", "inherit"] });
    await once(server.stdout, "data");
    for (const rate of RATES) figures.push(await measure(protocol, rate, size));
    server.kill();
  }
  return figures;
}

/** Measures what it costs to observe many connections, and what is lost. */
export const observe: Work = {
  name: "observe",
  summary: "observe --follow at 20,000 connections a second",
  run,
};
