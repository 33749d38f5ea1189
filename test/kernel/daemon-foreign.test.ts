import { setTimeout } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { apiService, apiSlice } from "../support/api-objects.ts";
import { DaemonLab } from "../support/daemon-lab.ts";
import type { RunningDaemon } from "../support/running-daemon.ts";
import { loadTown } from "../support/stub-api/town.ts";

const PORT = { port: 7000, targetPort: 7000 };
const FRONTEND = "10.96.7.7 . tcp . 7000";

let lab: DaemonLab;
let daemon: RunningDaemon;

const repaired = "rules changed by someone else, repaired";

/** Changes one element until the daemon is told so by the kernel: it begins to listen 5 s after its first sync, and 30 s after a new rule. */
async function listening(): Promise<void> {
  const told = () => daemon.said("rules changed by someone else: repairing").length;
  const before = told();
  for (let repairs = daemon.said(repaired).length; told() === before; repairs++) {
    await lab.nft("delete", "element", "ip", "nft-proxy", "lists", `{ ${FRONTEND} }`);
    await daemon.saying(repaired, repairs + 1);
    await lab.converged();
  }
}

beforeAll(async () => {
  lab = await DaemonLab.create();
  loadTown(lab.cluster);
  lab.cluster.put("services", apiService("echo", { clusterIP: "10.96.7.7", ports: [PORT] }));
  lab.cluster.put("endpointslices", apiSlice("echo", ["10.244.1.11"], [PORT]));
  lab.cluster.put("services", apiService("churn", { clusterIP: "10.96.7.8", ports: [PORT] }));
  daemon = lab.start(["--full-resync-period=10h"]);
  await lab.converged();
  await listening();
}, 120_000);
afterAll(() => lab?.close());
beforeEach(() => lab.converged());

/** Changes endpoints 20 times a second until it is told to end. */
function churn(): () => Promise<void> {
  let isOver = false;
  const changes = (async () => {
    for (let n = 0; !isOver; n++) {
      lab.cluster.put("endpointslices", apiSlice("churn", [`10.244.3.${1 + (n % 200)}`], [PORT]));
      await setTimeout(50);
    }
  })();
  return async () => {
    isOver = true;
    await changes;
  };
}

const inTable = (verb: string, kind: string, name: string, ...rest: readonly string[]) =>
  lab.nft(verb, kind, "ip", "nft-proxy", name, ...rest);

/** The id of the list of endpoints of a frontend. */
const listId = async () =>
  / : ([0-9a-f]+:[0-9a-f]+)/.exec(await inTable("get", "element", "lists", `{ ${FRONTEND} }`))?.[1] ?? "";

const KINDS: readonly (readonly [what: string, interfere: () => Promise<unknown>, found: RegExp])[] = [
  ["a deleted element", () => inTable("delete", "element", "lists", `{ ${FRONTEND} }`), /0 chains, 0 sets, 1 element /],
  [
    "a changed element",
    async () => {
      const id = await listId();
      const file = await lab.file(
        "changed.nft",
        `delete element ip nft-proxy endpoints { ${id} . 0 }
         add element ip nft-proxy endpoints { ${id} . 0 : 192.0.2.9 . 81 }`,
      );
      return await lab.nft("-f", file);
    },
    /0 chains, 0 sets, 2 elements /,
  ],
  [
    "a foreign element",
    () => inTable("add", "element", "cluster-ips", "{ 192.0.2.68 }"),
    /0 chains, 0 sets, 1 element /,
  ],
  ["an emptied map", () => inTable("flush", "map", "lists"), /0 chains, 0 sets, \d\d+ elements /],
];

/** Drift within 10 s of the last repair, for the sixth time in a row, is repaired later. */
const SOON = 10_500;
let prompt = 0;
beforeEach(async () => {
  if (prompt++ % 4 === 0) await setTimeout(SOON);
});

const fullSyncs = () =>
  Promise.all(
    ["same", "repaired", "failed"].map((result) => lab.metric("nft_proxy_full_resyncs_total", `result="${result}"`)),
  );

/** Interferes, and returns how long it took from then until the daemon repaired it, milliseconds. */
async function repairs(interfere: () => Promise<unknown>, found: RegExp): Promise<number> {
  const said = daemon.said(repaired).length;
  await interfere();
  const since = performance.now();
  const { found: text, reason } = await daemon.saying(repaired, said + 1);
  const took = performance.now() - since;
  expect([text, reason]).toEqual([expect.stringMatching(found), "drift"]);
  return took;
}

describe("a change of our rules by somebody else, of which the kernel tells", () => {
  test.each(KINDS)("such as %s is repaired at once and without a full sync", async (_what, interfere, found) => {
    const before = await fullSyncs();
    expect(await repairs(interfere, found)).toBeLessThan(5000);
    await lab.converged();
    expect(await fullSyncs()).toEqual(before);
  });

  test.each(KINDS)("such as %s is repaired at once while endpoints change", async (_what, interfere, found) => {
    const end = churn();
    try {
      await setTimeout(300);
      expect(await repairs(interfere, found)).toBeLessThan(5000);
    } finally {
      await end();
    }
    await lab.converged();
  });

  test("such as an emptied chain is repaired at once and without a full sync", async () => {
    const before = await fullSyncs();
    expect(await repairs(() => inTable("flush", "chain", "services"), /1 chain, 0 sets, 0 elements /)).toBeLessThan(
      5000,
    );
    await lab.converged();
    expect(await fullSyncs()).toEqual(before);
  });

  test("such as a deleted table is made again at once while endpoints change", async () => {
    await listening();
    await setTimeout(SOON);
    const end = churn();
    try {
      const deletion = () => lab.nft("delete", "table", "ip6", "nft-proxy");
      expect(await repairs(deletion, /table ip6 nft-proxy was missing/)).toBeLessThan(5000);
    } finally {
      await end();
    }
    await lab.converged();
  });
});
