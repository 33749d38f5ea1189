import { type ClusterSize, sizeText } from "../cluster-objects.ts";
import { DAEMON_SOCKET } from "../daemon-process.ts";
import { atMost, type Figure, percentile, time, timeWithCpu, type Work } from "../figures.ts";
import { type Follower, followClosely } from "../follow.ts";
import type { KernelMonitor } from "../kernel-monitor.ts";
import { cpuMs } from "../memory.ts";
import { OTHER_SETS, withOtherSets } from "../other-sets.ts";
import { nftProxy, pause, runProgram } from "../programs.ts";

/** The number of Services. BUSY_SERVICES overrides it. */
const SIZE: ClusterSize = { services: Number(process.env.BUSY_SERVICES ?? 10_000), endpoints: 10 };

/** Time of changes before commands run beside them, seconds. BUSY_SECONDS overrides it. */
const SECONDS = Number(process.env.BUSY_SECONDS ?? 60);
/** Number of runs of each command. BUSY_ROUNDS overrides it. */
const ROUNDS = Number(process.env.BUSY_ROUNDS ?? 3);

/** Commands that exit with 0 if the kernel has the desired rules. */
const COMMANDS: readonly (readonly string[])[] = [
  ["diff"],
  ["explain", "--live", "--all", "--exit-code"],
  ["refusals"],
  ["support-bundle", "-"],
];

/** Budget with 20 changes a second; 100 may take longer. Milliseconds. */
const COMMAND_LIMIT = 10_000;
const LAG_LIMIT = 1200;
const AGE_LIMIT = 30_000;

/** Pause between two readings of the last verification's age, milliseconds. */
const LOOK = 500;

interface Scene {
  readonly perSecond: number;
  /** Pods are on two nodes, one of which is ours, where each endpoint has a hairpin element. */
  readonly isHalfLocal?: boolean;
  readonly isBesideOthers?: boolean;
}

const SCENES: readonly Scene[] = [
  { perSecond: 20 },
  { perSecond: 100 },
  { perSecond: 20, isHalfLocal: true },
  { perSecond: 20, isBesideOthers: true },
];

function textOf({ perSecond, isHalfLocal, isBesideOthers }: Scene): string {
  const more = isHalfLocal
    ? ", half of them local"
    : isBesideOthers
      ? `, beside ${OTHER_SETS.toLocaleString("en")} sets of others`
      : "";
  return `busy: ${sizeText(SIZE)}${more}, ${perSecond} changes/s`;
}

/** Changes endpoints until it is stopped. */
interface Changes {
  /** Times from the change to the kernel, milliseconds. */
  readonly lags: readonly number[];
  stop(): Promise<void>;
}

function beginChanges({ churn }: Follower, monitor: KernelMonitor, perSecond: number): Changes {
  const lags: number[] = [];
  const started = performance.now();
  let isStopped = false;
  const change = async () => {
    const underWay: Promise<unknown>[] = [];
    for (let i = 0; !isStopped; i++) {
      await pause(Math.max(0, started + (i * 1000) / perSecond - performance.now()));
      const at = performance.now();
      const address = churn.replace(
        (i * 7919) % SIZE.services,
        Math.floor(i / SIZE.services) % SIZE.endpoints,
      );
      underWay.push(monitor.added(address).then((came) => lags.push(came - at)));
    }
    await Promise.all(underWay);
  };
  const ended = change();
  return {
    lags,
    stop: async () => {
      isStopped = true;
      await ended;
    },
  };
}

/** Reads the age of the last verification until it is stopped. @returns the greatest age, milliseconds */
async function greatestAge({ daemon }: Follower, until: AbortSignal): Promise<number> {
  let greatest = 0;
  for (; !until.aborted; await pause(LOOK)) {
    const at = await daemon.lastVerified();
    if (at !== undefined) greatest = Math.max(greatest, Date.now() - Date.parse(at));
  }
  return greatest;
}

/** Measures how long a command takes, and how often its result was right. */
async function commandFigure(work: string, command: readonly string[], isLimited: boolean): Promise<Figure> {
  const runs = [];
  for (let i = 0; i < ROUNDS; i++)
    runs.push(await runProgram(nftProxy(...command, `--daemon-socket=${DAEMON_SOCKET}`)));
  const right = runs.filter(({ exitCode }) => exitCode === 0).length;
  const ms = Math.max(...runs.map((run) => run.ms));
  const cpu = Math.max(...runs.map((run) => run.cpuMs));
  return {
    work: `${work}: ${command.filter((word) => word !== "-" && word !== "--exit-code").join(" ")}, the longest of ${ROUNDS}`,
    value: `${timeWithCpu(ms, cpu)}${right === ROUNDS ? "" : `, ${ROUNDS - right} wrong`}`,
    ...(isLimited && {
      budget: {
        text: `right, at most ${time(COMMAND_LIMIT)}`,
        holds: right === ROUNDS && ms <= COMMAND_LIMIT,
      },
    }),
  };
}

async function measure(scene: Scene, follower: Follower, monitor: KernelMonitor): Promise<Figure[]> {
  const { perSecond } = scene;
  const work = textOf(scene);
  const over = new AbortController();
  const age = greatestAge(follower, over.signal);
  const [cpu, started] = [cpuMs(follower.daemon.pid), performance.now()];
  const changes = beginChanges(follower, monitor, perSecond);
  await pause(SECONDS * 1000);
  const share = ((cpuMs(follower.daemon.pid) - cpu) / (performance.now() - started)) * 100;
  const lags = [...changes.lags];
  const commands: Figure[] = [];
  for (const command of COMMANDS) commands.push(await commandFigure(work, command, perSecond <= 20));
  await changes.stop();
  over.abort();
  const p99 = percentile(lags, 0.99);
  return [
    {
      work: `${work}: lag`,
      value: `p50 ${time(percentile(lags, 0.5))}, p99 ${time(p99)}`,
      budget: atMost(p99, LAG_LIMIT, time(LAG_LIMIT)),
    },
    {
      work: `${work}: lag while commands ask`,
      value: `p99 ${time(percentile(changes.lags.slice(lags.length), 0.99))}`,
    },
    { work: `${work}: CPU, nft included`, value: `${share.toFixed(1)} % of one core` },
    ageFigure(work, await age),
    ...commands,
  ];
}

function ageFigure(work: string, ms: number): Figure {
  return {
    work: `${work}: age of the verification, at most`,
    value: time(ms),
    budget: atMost(ms, AGE_LIMIT, time(AGE_LIMIT)),
  };
}

/**
 * Measures commands beside a daemon while endpoints change all the time, and their effect on the daemon's own
 * work.
 */
export const busy: Work = {
  name: "busy",
  summary: `commands beside a daemon while endpoints change, ${SECONDS} s and then ${ROUNDS} times each command`,
  run: async () => {
    const figures: Figure[] = [];
    for (const scene of SCENES) {
      const size = scene.isHalfLocal ? { ...SIZE, nodes: 2 } : SIZE;
      const found = await followClosely(size, [], (follower, monitor) => {
        const run = () => measure(scene, follower, monitor);
        return scene.isBesideOthers ? withOtherSets(run) : run();
      });
      figures.push(...found);
    }
    return figures;
  },
};
