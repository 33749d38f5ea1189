import { openTables } from "../../../src/kernel/netlink-tables.ts";
import { nftProgram } from "../../../src/kernel/nft.ts";
import { declaredTable } from "../../../src/kernel/read-kernel.ts";
import { systemClock } from "../../../src/kernel/system-clock.ts";
import type { SetSpec } from "../../../src/nft/ast/ruleset.ts";
import { type Absence, KernelWatch } from "../../support/kernel-watch.ts";
import { type ClusterSize, sizeText } from "../cluster-objects.ts";
import { atMost, type Figure, median, percentile, time, type Work } from "../figures.ts";
import { type Follower, follow } from "../follow.ts";
import { cpuMs } from "../memory.ts";
import { mustRun, pause, runProgram } from "../programs.ts";

const SIZE = { services: 10_000, endpoints: 10 };
const ROUNDS = 7;
/**
 * Idle time before each flush, in which the daemon gives memory back and polls at any moment. Milliseconds.
 */
const REST = 4000;
const LIMIT = 1200;
const RESOLUTION = 25;

/** The last base chain to be restored. IPv6 comes after IPv4. */
const COMPLETE = ["nft", "list", "chain", "ip6", "nft-proxy", "nat-prerouting"];

/** Measures from another program's `nft flush ruleset` until the whole ruleset is back. Milliseconds. */
async function repairTime(): Promise<number> {
  await pause(REST + Math.random() * 500);
  await mustRun(["nft", "flush", "ruleset"]);
  const flushed = performance.now();
  while ((await runProgram(COMPLETE)).exitCode !== 0) await pause(RESOLUTION);
  return performance.now() - flushed;
}

/**
 * A cluster with half of its pods on this node. Each of these has one more element, for hairpins.
 * REPAIR_SERVICES overrides the number of Services.
 */
const LARGE = { services: Number(process.env.REPAIR_SERVICES ?? 10_000), endpoints: 10, nodes: 2 };
/** Number of repairs of each change. REPAIR_ROUNDS overrides it. */
const REPAIRS = Number(process.env.REPAIR_ROUNDS ?? 20);
const REPAIR_LIMIT = 200;
const IDLE_LIMIT = 0.3;
/**
 * Time in which the CPU of an idle daemon is measured, milliseconds. It includes several verifications, but
 * no comparison: while nothing changes, these take 0.1 % of the time.
 */
const IDLE = 100_000;
/** Number of repairs in a row, before a rest so that their pauses do not add up. */
const PROMPT = 5;
const REPAIR_REST = 10_500;
const PATIENCE = 60_000;
const CHANGES_PER_SECOND = 100;

/** Another program's change, and how long it lasts. @param n the number of earlier changes */
type Fault = (
  watch: KernelWatch,
  n: number,
) => { readonly change: readonly string[]; readonly lasts: Absence };

/** Changes of single elements and of one chain, by name. */
async function faultsOf(): Promise<Readonly<Record<string, Fault>>> {
  const { tables, close } = await openTables(nftProgram({ path: "nft" }), systemClock);
  const sets = (await declaredTable(tables, "ip"))?.sets;
  const specOf = (name: string) => {
    const spec = sets?.get(name)?.spec;
    if (spec === undefined) throw new Error(`no set ${name}`);
    return spec;
  };
  const deleted = async (name: string): Promise<Fault> => {
    const spec = specOf(name);
    const keys = await someKeys(spec);
    return (watch, n) => {
      const key = keys[n % keys.length] ?? "";
      const change = ["delete", "element", "ip", "nft-proxy", name, `{ ${key} }`];
      return { change, lasts: watch.ofElement("ip", spec, key) };
    };
  };
  const someKeys = async (spec: SetSpec) => {
    const keys: string[] = [];
    for await (const batch of tables.elements("ip", spec)) keys.push(...batch.map(({ key }) => key));
    const step = Math.max(1, Math.floor(keys.length / REPAIRS));
    return keys.filter((_, index) => index % step === 0);
  };
  const faults = {
    "an endpoint deleted": await deleted("endpoints"),
    "a frontend deleted": await deleted("lists"),
    "a foreign element": ((watch, n) => {
      const change = ["add", "element", "ip", "nft-proxy", "cluster-ips", `{ 198.51.100.${n + 1} }`];
      return { change, lasts: watch.ofExtraElement("ip", specOf("cluster-ips"), `198.51.100.${n + 1}`) };
    }) satisfies Fault,
    "a chain emptied": ((watch) => ({
      change: ["flush", "chain", "ip", "nft-proxy", "services"],
      lasts: watch.ofRules("ip", "services"),
    })) satisfies Fault,
  };
  close();
  return faults;
}

/** Measures how long each of some changes lasts until its repair, milliseconds. */
async function repairTimes(watch: KernelWatch, fault: Fault): Promise<readonly number[]> {
  const times: number[] = [];
  for (let n = 0; n < REPAIRS; n++) {
    await pause(n % PROMPT === 0 ? REPAIR_REST : Math.random() * 300);
    const { change, lasts } = fault(watch, n);
    await mustRun(["nft", ...change]);
    const until = performance.now() + PATIENCE;
    while (lasts() === undefined && performance.now() < until) await pause(2);
    times.push(lasts() ?? PATIENCE);
  }
  return times;
}

/** Replaces endpoints until it is stopped. */
function beginChanges({ churn }: Follower): { stop(): void } {
  let [i, last] = [0, performance.now()];
  const timer = setInterval(() => {
    for (; last + 1000 / CHANGES_PER_SECOND <= performance.now(); last += 1000 / CHANGES_PER_SECOND)
      churn.replace((i++ * 7919) % LARGE.services, Math.floor(i / LARGE.services) % LARGE.endpoints);
  }, 10);
  return { stop: () => clearInterval(timer) };
}

async function smallRepairs(follower: Follower, where: string): Promise<Figure[]> {
  const watch = await KernelWatch.start((reason) => console.error(reason));
  const figures: Figure[] = [];
  for (const [name, fault] of Object.entries(await faultsOf())) {
    const times = await repairTimes(watch, fault);
    const p99 = percentile(times, 0.99);
    figures.push({
      work: `${name}, until repaired, ${where}, ${REPAIRS} times`,
      value: `p50 ${time(percentile(times, 0.5))}, p99 ${time(p99)}`,
      budget: atMost(p99, REPAIR_LIMIT, time(REPAIR_LIMIT)),
    });
  }
  watch.stop();
  if (follower.daemon.hasEnded) throw new Error("the daemon ended");
  return figures;
}

/**
 * Measures the CPU time of the daemon and its programs while nothing changes, after the comparison that
 * follows the last repair. The first verification that ends may have begun before that repair, so it waits
 * for two.
 */
async function idleFigure({ daemon }: Follower, where: string): Promise<Figure> {
  for (let verifications = 0; verifications < 2; verifications++) {
    const before = await daemon.lastVerified();
    while ((await daemon.lastVerified()) === before) await pause(1000);
  }
  const [cpu, started] = [cpuMs(daemon.pid), performance.now()];
  await pause(IDLE);
  const share = ((cpuMs(daemon.pid) - cpu) / (performance.now() - started)) * 100;
  return {
    work: `idle, ${where}: CPU of all processes`,
    value: `${share.toFixed(2)} % of one core`,
    budget: atMost(share, IDLE_LIMIT, `${IDLE_LIMIT} %`),
  };
}

/**
 * Measures small changes by other programs in a cluster with half of its pods on this node, idle and while
 * endpoints change.
 */
async function ofLarge(follower: Follower, size: ClusterSize): Promise<Figure[]> {
  const where = `${sizeText(size)}, half of them local`;
  const figures = await smallRepairs(follower, `${where}, idle`);
  const changes = beginChanges(follower);
  figures.push(...(await smallRepairs(follower, `${where}, ${CHANGES_PER_SECOND} changes/s`)));
  changes.stop();
  figures.push(await idleFigure(follower, where));
  return figures;
}

/**
 * Measures a flush of the ruleset by another program, until the daemon has noticed it and rebuilt everything.
 */
export const repair: Work = {
  name: "repair",
  summary: "a flushed ruleset, until it is complete again; elements and chains that others changed, idle CPU",
  run: async () => [
    ...(await follow(SIZE, [], async () => {
      const times: number[] = [];
      for (let i = 0; i < ROUNDS; i++) times.push(await repairTime());
      const ms = median(times);
      return [
        {
          work: `ruleset flushed, until complete again, ${sizeText(SIZE)}, p50 of ${ROUNDS}`,
          value: `${time(ms)} (${time(Math.min(...times))} to ${time(Math.max(...times))})`,
          budget: atMost(ms, LIMIT, time(LIMIT)),
        },
      ];
    })),
    ...(await follow(LARGE, [], (follower) => ofLarge(follower, LARGE))),
  ],
};
