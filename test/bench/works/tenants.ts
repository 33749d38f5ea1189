import { MOTIONS, type TenantChange, type TenantService } from "../../support/hostile-tenants.ts";
import type { StubApi } from "../../support/stub-api/stub-api.ts";
import type { DaemonProcess } from "../daemon-process.ts";
import { type Figure, time } from "../figures.ts";
import { type Follower, follow } from "../follow.ts";
import { cpuOf, forgetPeak, type Memory, MemoryWatch } from "../memory.ts";
import { Neighbour, type NeighbourNews, putNeighbour } from "../neighbour.ts";
import { bringPodsHere } from "../packets.ts";
import { pause } from "../programs.ts";
import { type Scene, scenes } from "../tenant-scenes.ts";

const SIZE = { services: 1000, endpoints: 4 };

/** Maximum time until a neighbour's change takes effect, milliseconds. */
const LAG_LIMIT = 1000;
/** Maximum memory of node, bytes. */
const MEMORY_LIMIT = 640e6;

/**
 * Pause between two changes of a tenant's objects, milliseconds. An API server accepts some hundred writes a
 * second.
 */
const BETWEEN_WRITES = 4;
/** Number of changes in a storm, which has no pauses. */
const STORM = 200;
/** Number of the tenant's Services that a storm changes. */
const STORM_SERVICES = 10;
const STORM_MOTIONS = [
  "last endpoint unready",
  "endpoints ready",
  "affinity on or off",
  "deleted and made again",
];
/** Maximum size of an object that a storm repeats, bytes. */
const STORM_BYTES = 100_000;

/** Maximum time for the daemon to process a tenant's change before the next one, milliseconds. */
const PART_WITHIN = 2000;
/** The same after the last change, milliseconds. */
const END_WITHIN = 20_000;
const LOOK_EVERY = 100;

/** Time within which Events that all nodes find are sent, milliseconds. */
const EVENTS_WITHIN = 16_000;

interface Taken extends NeighbourNews {
  readonly cpu: ReturnType<typeof cpuOf>;
  readonly memory: Memory;
  readonly logLines: number;
  /** The reason if the scene ended early. */
  readonly ended: string | undefined;
  /** The motion with the worst lag. */
  readonly worstIn: string;
}

type Told = ReadonlyMap<string, number>;

/** Creates the objects of a scene, moves them as the tenant, and removes them. */
async function play(
  { api, daemon }: Follower,
  neighbour: Neighbour,
  services: readonly TenantService[],
): Promise<Taken> {
  forgetPeak(daemon.pid);
  const memory = new MemoryWatch(daemon.pid);
  const [cpu, logLines] = [cpuOf(daemon.pid), daemon.logLines];
  const worst = { lag: 0, motion: "" };
  const all: NeighbourNews[] = [];
  let ended: string | undefined;
  for (const [motion, act] of motions(services)) {
    await act(api);
    const isSettled = await neighbour.settled();
    if (isSettled) await drained(daemon, motion === "deleted" ? END_WITHIN : PART_WITHIN);
    const news = neighbour.take();
    all.push(news);
    const lag = Math.max(0, ...news.lags);
    if (lag > worst.lag) Object.assign(worst, { lag, motion });
    if (isSettled && !daemon.hasEnded) continue;
    ended = `${motion}: ${daemon.hasEnded ? "the daemon ended" : "no change comes to the kernel any more"}`;
    break;
  }
  const after = cpuOf(daemon.pid);
  return {
    lags: all.flatMap(({ lags }) => lags),
    failures: all.flatMap(({ failures }) => failures),
    cpu: { own: after.own - cpu.own, children: after.children - cpu.children },
    memory: memory.stop(),
    logLines: daemon.logLines - logLines,
    ended,
    worstIn: worst.motion,
  };
}

/** Waits until the daemon has finished with a tenant's Services, up to a limit. */
async function drained(daemon: DaemonProcess, patience: number): Promise<void> {
  const until = performance.now() + patience;
  while (performance.now() < until && !daemon.hasEnded && (await daemon.hasPending()))
    await pause(LOOK_EVERY);
}

type Act = (api: StubApi) => Promise<void>;

/** The tenant's motions, with a storm of changes before the end. */
function motions(services: readonly TenantService[]): readonly (readonly [motion: string, act: Act])[] {
  const all = Object.entries(MOTIONS).map(([motion, changes]): readonly [string, Act] => [
    motion,
    (api) => write(api, changes(services, 0)),
  ]);
  const last = all.pop();
  return [...all, ["storm", (api) => write(api, storm(services))], ...(last === undefined ? [] : [last])];
}

/** Changes of some Services, one after the other. */
function storm(services: readonly TenantService[]): readonly TenantChange[] {
  const some = services.slice(0, STORM_SERVICES).filter((one) => JSON.stringify(one).length <= STORM_BYTES);
  const changes: TenantChange[] = [];
  for (let round = 0; some.length > 0 && changes.length < STORM; round++) {
    for (const motion of STORM_MOTIONS) changes.push(...(MOTIONS[motion]?.(some, round) ?? []));
  }
  const again = MOTIONS.made?.(some, 0) ?? [];
  return [...changes, ...again];
}

async function write({ cluster }: StubApi, changes: readonly TenantChange[]): Promise<void> {
  for (const [kind, resource, object] of changes) {
    cluster[kind](resource, object);
    await pause(BETWEEN_WRITES);
  }
}

/** Plays scenes with one daemon until one fails. */
async function playAll(
  rest: readonly Scene[],
  first: number,
): Promise<readonly (readonly [Scene, Taken, Told])[]> {
  await bringPodsHere();
  return await follow(SIZE, [], async (follower) => {
    const { api } = follower;
    putNeighbour(api.cluster);
    const neighbour = new Neighbour(api.cluster);
    const played: (readonly [Scene, Taken, string])[] = [];
    try {
      await neighbour.settled();
      neighbour.take();
      for (const [index, scene] of rest.entries()) {
        const namespace = `tenant${first + index}`;
        const taken = await play(follower, neighbour, scene.services(namespace));
        played.push([scene, taken, namespace]);
        console.error(`  ${scene.name}: ${valueText(taken)}`);
        if (taken.ended !== undefined) break;
      }
      await pause(EVENTS_WITHIN);
    } finally {
      await neighbour.stop();
    }
    return played.map(([scene, taken, namespace]) => [scene, taken, toldIn(api, namespace)] as const);
  });
}

/** Counts the Events of a tenant by reason. */
function toldIn({ events }: StubApi, namespace: string): Told {
  const told = new Map<string, number>();
  for (const { regarding, reason } of events) {
    const about = (regarding as { readonly namespace?: string }).namespace ?? "";
    if (about !== namespace && !about.startsWith(`${namespace}-`)) continue;
    told.set(String(reason), (told.get(String(reason)) ?? 0) + 1);
  }
  return told;
}

function figureOf([scene, taken, told]: readonly [Scene, Taken, Told]): Figure {
  const worst = Math.max(0, ...taken.lags);
  const holds =
    worst < LAG_LIMIT &&
    taken.memory.node < MEMORY_LIMIT &&
    taken.failures.length === 0 &&
    taken.ended === undefined;
  const events = [...told].map(([reason, count]) => `${count} ${reason}`).join(", ");
  return {
    work: `neighbour of a tenant: ${scene.name}`,
    value: `${valueText(taken)}; Events: ${events === "" ? "none" : events}`,
    budget: { text: "1 s, 640 MB, none fails", holds },
    memory: taken.memory,
  };
}

function valueText({ lags, failures, cpu, logLines, ended, worstIn }: Taken): string {
  const failed = failures.length === 0 ? "" : `; ${failures.length} connections failed (${failures[0]})`;
  const lag = `lag at most ${time(Math.max(0, ...lags))} (${worstIn})`;
  const spent = `CPU node ${time(cpu.own)}, nft ${time(cpu.children)}; ${logLines} lines of log`;
  return `${lag}; ${spent}${failed}${ended === undefined ? "" : `; **${ended}**`}`;
}

/** Measures the neighbour of a hostile tenant. @param chosen the scenes. Default: all */
export async function tenantFigures(chosen: readonly Scene[] = scenes()): Promise<readonly Figure[]> {
  const figures: Figure[] = [];
  while (figures.length < chosen.length) {
    const played = await playAll(chosen.slice(figures.length), figures.length);
    if (played.length === 0) throw new Error("no scene can be played");
    figures.push(...played.map(figureOf));
  }
  return figures;
}
