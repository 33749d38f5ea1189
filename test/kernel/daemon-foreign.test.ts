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

const repaired = "another program changed the rules, repaired";

beforeAll(async () => {
  lab = await DaemonLab.create();
  loadTown(lab.cluster);
  lab.cluster.put("services", apiService("echo", { clusterIP: "10.96.7.7", ports: [PORT] }));
  lab.cluster.put("endpointslices", apiSlice("echo", ["10.244.1.11"], [PORT]));
  lab.cluster.put("services", apiService("churn", { clusterIP: "10.96.7.8", ports: [PORT] }));
  await start();
});
afterAll(() => lab?.close());
beforeEach(async () => {
  await lab.converged();
  // A daemon delays the sixth repair of a series and all later ones.
  if (daemon.said(repaired).length < 5) return;
  await daemon.stop();
  await start();
});

/** Starts a daemon, and waits until the kernel notifies it of changes: its first repair proves that. */
async function start(): Promise<void> {
  daemon = lab.start(["--full-resync-period=10h"]);
  await daemon.saying("full sync");
  await lab.nft("add element ip nft-proxy cluster-ips { 192.0.2.67 }");
  await daemon.saying(repaired);
  await lab.converged();
}

/** Changes endpoints 20 times a second, until the returned function is called. */
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

/** Returns the list id of the frontend. */
const listId = async () =>
  / : ([0-9a-f]+:[0-9a-f]+)/.exec(await inTable("get", "element", "lists", `{ ${FRONTEND} }`))?.[1] ?? "";

const KINDS: readonly (readonly [what: string, interfere: () => Promise<unknown>, found: RegExp])[] = [
  [
    "a deleted element",
    () => inTable("delete", "element", "lists", `{ ${FRONTEND} }`),
    /0 chains, 0 sets, 1 element /,
  ],
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
  [
    "foreign elements of protocols that no Service has",
    () =>
      inTable(
        "add",
        "element",
        "lists",
        "{ 192.0.2.68 . icmp . 80 : 8000:4, 192.0.2.68 . 50 . 80 : 8000:4 }",
      ),
    /0 chains, 0 sets, 2 elements /,
  ],
  ["an emptied map", () => inTable("flush", "map", "lists"), /0 chains, 0 sets, \d\d+ elements /],
  ["an emptied chain", () => inTable("flush", "chain", "services"), /1 chain, 0 sets, 0 elements /],
  [
    "a foreign rule",
    () => inTable("add", "rule", "services", "ip", "daddr", "192.0.2.99", "drop"),
    /1 chain, 0 sets, 0 elements /,
  ],
  [
    "a deleted table",
    () => lab.nft("delete", "table", "ip6", "nft-proxy"),
    /table ip6 nft-proxy was missing/,
  ],
];

const fullSyncs = () =>
  Promise.all(
    ["same", "repaired", "failed"].map((result) =>
      lab.metric("nft_proxy_full_resyncs_total", `result="${result}"`),
    ),
  );

/**
 * Changes the rules, and waits until the daemon has repaired them and named the program, which the kernel
 * told it.
 */
async function repairs(interfere: () => Promise<unknown>, found: RegExp): Promise<void> {
  const said = daemon.said(repaired).length;
  await interfere();
  const { found: text, reason } = await daemon.saying(repaired, said + 1);
  expect([text, reason]).toEqual([expect.stringMatching(found), "drift"]);
  const notes = () => lab.api.events.map(({ note }) => String(note));
  await expect
    .poll(notes)
    .toContainEqual(
      expect.stringMatching(new RegExp(`have been repaired: ${text}, by (\\S+|a program that \\S+ loaded)$`)),
    );
}

describe("a change of our rules by another program, which the kernel notifies,", () => {
  test.each(KINDS)("such as %s is repaired without a full sync", async (_what, interfere, found) => {
    const before = await fullSyncs();
    await repairs(interfere, found);
    await lab.converged();
    expect(await fullSyncs()).toEqual(before);
  });

  test.each(KINDS)("such as %s is repaired while endpoints change", async (_what, interfere, found) => {
    const end = churn();
    try {
      await expect.poll(async () => await inTable("list", "map", "endpoints")).toContain(" : 10.244.3.");
      await repairs(interfere, found);
    } finally {
      await end();
    }
    await lab.converged();
  });
});
