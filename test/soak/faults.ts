import { setTimeout as sleep } from "node:timers/promises";
import { FAMILIES, type Family } from "../../src/base/family.ts";
import type { SetSpec } from "../../src/nft/ast/ruleset.ts";
import { LISTS } from "../../src/ruleset/sets.ts";
import type { TenantChange } from "../support/hostile-tenants.ts";
import type { Absence } from "../support/kernel-watch.ts";
import { affinityEntries, rememberClients } from "../support/kill-rounds.ts";
import type { Harm } from "./attribution.ts";
import { HOSTILE, type HostileObjects, TENANT_STEPS } from "./hostile-services.ts";
import { now, type Stage } from "./stage.ts";
import { probeOf, TARGETS } from "./targets.ts";

/** What a step of a fault did. */
export interface Injected {
  /** From when on the daemon could repair it, milliseconds since 1970. */
  readonly since: number;
  /** What it does to connections until it is repaired; nothing if absent. */
  readonly harm?: Omit<Harm, "fault" | "until">;
  /** Whether its traces are gone. A new Service must be served then, which the caller checks. */
  readonly isRepaired?: () => Promise<boolean>;
  /** For how long what it deleted was missing in the kernel. */
  readonly absence?: Absence;
}

/** One step of a fault. @param random draws what is left to chance */
type Step = (stage: Stage, random: () => number) => Promise<Injected>;

/**
 * Something that goes wrong, in one step or several. The daemon has to be over each of them before the next.
 */
export interface Fault {
  readonly name: string;
  readonly steps: readonly Step[];
  /** It ends the daemon's process, whose memory then is no longer comparable. */
  readonly restarts?: true;
}

/** Clients that session affinity remembers while the daemon is killed. */
const CLIENTS = 200;

/** The wall clock is set by so much at most, in either direction, milliseconds. */
const CLOCK_STEPS = [60_000, 3_600_000, 86_400_000, 30 * 86_400_000] as const;

/** Elements of another software's table. */
const OTHER_ELEMENTS = 3000;

const away: Step = async (stage, random) => {
  await stage.lab.stopApi();
  await between(random, 3000, 15_000);
  await stage.lab.startApi(stage.cluster);
  return { since: now() };
};

const throttled: Step = async (stage, random) => {
  const { api } = stage.lab;
  api.addFault({ fault: { kind: "status", status: 429, retryAfter: "1" }, times: Number.POSITIVE_INFINITY });
  api.dropConnections();
  await between(random, 3000, 10_000);
  api.clearFaults();
  return { since: now() };
};

const expired: Step = async (stage, random) => {
  const until = now() + 2000 + random() * 5000;
  while (now() < until) {
    stage.expire();
    await sleep(300);
  }
  return { since: now() };
};

const killed: Step = async (stage, random) => {
  const { lab } = stage;
  await lab.nft("flush", "map", "ip", "nft-proxy", "affinity-clients");
  await rememberClients(lab, CLIENTS);
  const before = entriesText(await affinityEntries(lab));
  for (let left = Math.floor(random() * 4); left >= 0; left--) {
    await stage.kill();
    await between(random, 0, 300);
    stage.start();
    if (left > 0) await between(random, 0, 2000);
  }
  return { since: now(), isRepaired: async () => entriesText(await affinityEntries(lab)) === before };
};

const second: Step = async (stage, random) => {
  const from = now();
  const servers = ["--metrics-bind-address=127.0.0.1:10259", "--healthz-bind-address=127.0.0.1:10266"];
  const daemon = stage.run("--masquerade-all", "--daemon-socket=/run/nft-proxy/second.sock", ...servers);
  let hasSynced = false;
  daemon.onLine((line) => {
    hasSynced ||= line.includes('"full sync"');
  });
  await between(random, 5000, 10_000);
  daemon.kill("SIGTERM");
  await daemon.ended;
  // One that waits for the other to end harms nobody; one that does not may.
  return { since: now(), ...(hasSynced ? { harm: { from, families: FAMILIES } } : {}) };
};

const nftKilled: Step = async (stage, random) => {
  const until = now() + 1000 + random() * 2000;
  while (now() < until) {
    for (const pid of stage.nftPids()) end(pid);
    await between(random, 0, 60);
  }
  return { since: now() };
};

const clockSet: Step = async (stage, random) => {
  const size = CLOCK_STEPS[Math.floor(random() * CLOCK_STEPS.length)] ?? 0;
  await stage.setClock(random() < 0.5 ? size : -size);
  await sleep(500);
  return { since: now() };
};

/** Somebody deletes all rules. */
export async function flushed(stage: Stage): Promise<Required<Injected>> {
  const from = now();
  const absence = stage.kernel.ofTables(FAMILIES);
  await stage.lab.nft("flush", "ruleset");
  const isRepaired = () => isServed(stage, FAMILIES);
  return { since: now(), harm: { from, families: FAMILIES }, isRepaired, absence };
}

/** Without the API server the rules have to come back, too. */
const flushedWhileAway: Step = async (stage, random) => {
  await stage.lab.stopApi();
  await between(random, 1000, 5000);
  const flush = await flushed(stage);
  const isBack = await stage.until(() => isServed(stage, FAMILIES), 30_000);
  await stage.lab.startApi(stage.cluster);
  return { ...flush, isRepaired: async () => isBack };
};

const tableDeleted: Step = async (stage, random) => {
  const family = familyOf(random);
  const from = now();
  const absence = stage.kernel.ofTables([family]);
  await stage.lab.nft("delete", "table", family, "nft-proxy");
  const isRepaired = () => isServed(stage, [family]);
  return { since: now(), harm: { from, families: [family] }, isRepaired, absence };
};

const chainEmptied: Step = async (stage, random) => {
  const family = familyOf(random);
  const from = now();
  const absence = stage.kernel.ofRules(family, "services");
  await stage.lab.nft("flush", "chain", family, "nft-proxy", "services");
  const isRepaired = () => isServed(stage, [family]);
  return { since: now(), harm: { from, families: [family] }, isRepaired, absence };
};

const elementDeleted: Step = async (stage, random) => {
  const target = TARGETS[Math.floor(random() * TARGETS.length)];
  if (target === undefined) throw new Error("no target");
  const { kind, family, name, clusterIP, port } = target;
  const nobody = family === "ip" ? "0.0.0.0" : "::";
  const protocol = kind === "udp" ? "udp" : "tcp";
  const key =
    kind === "node-port" ? `${nobody} . tcp . ${port.nodePort}` : `${clusterIP} . ${protocol} . ${port.port}`;
  const from = now();
  const absence = stage.kernel.ofElement(family, listsSpec(family), key);
  await stage.lab.nft("delete", "element", family, "nft-proxy", "lists", `{ ${key} }`);
  const isRepaired = () => stage.isAnswered([probeOf(target)]);
  return { since: now(), harm: { from, families: [family], service: name }, isRepaired, absence };
};

const othersRebuilt: Step = async (stage, random) => {
  const elements = Array.from({ length: OTHER_ELEMENTS }, (_, n) => `198.18.${n >> 8}.${n & 255}`);
  const chains = Array.from({ length: 100 }, (_, n) => `chain other-${n} { ip saddr @seen accept; }`);
  const table = `table inet other {
    set seen { type ipv4_addr; elements = { ${elements.join(", ")} }; }
    ${chains.join("\n")}
    chain input { type filter hook input priority filter; policy accept; jump other-0; }
  }`;
  const file = await stage.lab.file("other.nft", `table inet other\ndelete table inet other\n${table}\n`);
  for (let times = 3 + Math.floor(random() * 10); times > 0; times--) {
    await stage.lab.nft("-f", file);
    await between(random, 0, 300);
  }
  return { since: now() };
};

/** The declaration of the map that has the frontends. */
function listsSpec(family: Family): SetSpec {
  const address = family === "ip" ? "ipv4_addr" : "ipv6_addr";
  return { name: LISTS, key: [address, "inet_proto", "inet_service"], dynamic: false, counter: false };
}

/** All faults, of which none may cost a connection but where it says so. */
export const FAULTS: readonly Fault[] = [
  { name: "API server away", steps: [away] },
  { name: "API server away, the ruleset flushed meanwhile", steps: [flushedWhileAway] },
  { name: "API server answers 429", steps: [throttled] },
  { name: "API server answers 410", steps: [expired] },
  { name: "daemon killed (SIGKILL), 1 to 4 times", steps: [killed], restarts: true },
  { name: "second daemon", steps: [second] },
  { name: "nft killed, again and again", steps: [nftKilled] },
  { name: "wall clock set", steps: [clockSet] },
  { name: "ruleset flushed", steps: [flushed] },
  { name: "a table deleted", steps: [tableDeleted] },
  { name: "a chain emptied", steps: [chainEmptied] },
  { name: "an element deleted", steps: [elementDeleted] },
  { name: "another software's table rebuilt", steps: [othersRebuilt] },
  ...Object.entries(HOSTILE).map(([name, make]) => hostileFault(name, make)),
  ...Object.entries(TENANT_STEPS).map(([name, steps]) => ({ name, steps: steps.map(tenantStep) })),
];

/** A tenant changes its objects; a new Service has to be served meanwhile. */
function tenantStep(changes: () => readonly TenantChange[]): Step {
  return async ({ cluster }) => {
    for (const [kind, resource, object] of changes()) cluster[kind](resource, object);
    return { since: now() };
  };
}

/** Hostile objects come, and go. */
function hostileFault(name: string, make: () => HostileObjects): Fault {
  const { services, slices } = make();
  const come: Step = async ({ cluster }) => {
    for (const object of services) cluster.put("services", object);
    for (const object of slices) cluster.put("endpointslices", object);
    return { since: now() };
  };
  const go: Step = async ({ cluster }) => {
    for (const object of services) cluster.remove("services", object);
    for (const object of slices) cluster.remove("endpointslices", object);
    return { since: now() };
  };
  return { name, steps: [come, go] };
}

/**
 * Whether connections of some families are answered, one to each target but for those that hear nothing at
 * first.
 */
function isServed(stage: Stage, families: readonly Family[]): Promise<boolean> {
  const targets = TARGETS.filter(({ kind, family }) => kind !== "held" && families.includes(family));
  return stage.isAnswered(targets.map(probeOf));
}

function familyOf(random: () => number): Family {
  return random() < 0.5 ? "ip" : "ip6";
}

function entriesText(entries: ReadonlyMap<string, string>): string {
  return [...entries]
    .map(([client, endpoint]) => `${client} ${endpoint}`)
    .sort()
    .join("\n");
}

async function between(random: () => number, leastMs: number, mostMs: number): Promise<void> {
  await sleep(leastMs + random() * (mostMs - leastMs));
}

function end(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It ended by itself.
  }
}
