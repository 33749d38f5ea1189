import { execaSync } from "execa";
import { beforeEach, expect, test } from "vitest";
import { MOST_VANISHED, VANISHED_SECONDS } from "../../src/features/connection-life/rules.ts";
import { statePart } from "../../src/features/connection-life/state.ts";
import { VanishedEndpoints } from "../../src/features/connection-life/vanished-endpoints.ts";
import { nftProgram } from "../../src/kernel/nft.ts";
import type { SliceEndpoint } from "../../src/model/endpoint-slice.ts";
import { Reconciler } from "../../src/sync/reconciler.ts";
import {
  cacheOf,
  DRAINING,
  endpoint,
  type ServiceOptions,
  service,
  slice,
  testNodeContext,
} from "../support/build.ts";
import { nftTables } from "../support/nft-tables.ts";

// The set of vanished endpoints in the real kernel. The kernel must not refuse a sync, whatever the state of
// the set.

const nft = nftProgram({ path: "nft" });
const [A, B] = ["10.244.2.11", "10.244.2.12"] as const;

/** @param own options of the Service; with some, it decides instead of the option */
function start(own: ServiceOptions = {}) {
  const cache = cacheOf({ services: [service(own)], slices: [slice({ endpoints: [A, B] })] });
  const byDefault = Object.keys(own).length === 0;
  const clock = { now: 0 };
  const vanished = new VanishedEndpoints({ cache, now: () => clock.now, delayMs: 0, byDefault });
  const now = () => clock.now;
  const parts = [statePart(vanished, { now, monotonic: now })];
  const reconciler = new Reconciler({ cache, nft, tables: nftTables(nft), stateParts: parts });
  const nodeContext = testNodeContext({ resetVanished: byDefault });
  const sync = () => reconciler.sync({ nodeContext, services: cache.takeDirty() });
  const serve = (...endpoints: readonly (SliceEndpoint | string)[]) =>
    cache.putSlice(slice({ endpoints, family: "ip" }));
  return { clock, sync, serve, reconciler };
}

const change = (command: string, elements: string) =>
  execaSync("nft", ["-f", "-"], { input: `${command} element ip nft-proxy vanished { ${elements} }` });
const inKernel = () =>
  [...execaSync("nft", ["list", "set", "ip", "nft-proxy", "vanished"]).stdout.matchAll(/[\d.]+ \. \d+/g)].map(
    String,
  );

beforeEach(() => {
  execaSync("nft", ["flush", "ruleset"]);
});

test("an endpoint that is back is deleted in a partial sync, even if the kernel has already expired it", async () => {
  const { sync, serve } = start();
  await sync();
  for (const isEnded of [false, true]) {
    serve(B);
    await sync();
    expect(inKernel()).toEqual([`${A} . 8080`]);
    if (isEnded) change("delete", `${A} . 8080`);
    serve(A, B);
    expect(await sync()).toMatchObject({ kind: "partial" });
    expect(inKernel()).toEqual([]);
  }
});

test("the kernel expires an endpoint by itself, later than the daemon deletes it", async () => {
  const { sync, serve } = start();
  await sync();
  serve(B);
  await sync();
  const { stdout } = execaSync("nft", ["-j", "list", "set", "ip", "nft-proxy", "vanished"]);
  const [, expires] = /"expires": (\d+)/.exec(stdout) ?? [];
  expect(Number(expires)).toBeGreaterThan(VANISHED_SECONDS);
});

test("a set that other programs filled is cleaned up, and the sync succeeds", async () => {
  const { sync, serve } = start();
  await sync();
  const others = Array.from({ length: 2 * MOST_VANISHED }, (_, n) => `10.9.${n >> 8}.${n & 255} . 80`);
  change("add", others.join(", "));
  serve(B);
  expect(await sync()).toMatchObject({ kind: "full", refused: [] });
  expect(inKernel()).toEqual([`${A} . 8080`]);
});

test("the set, chains and rules are created with the first drained endpoint, and removed after the last", async () => {
  const { clock, sync, serve, reconciler } = start({ drainTimeoutMs: 1000 });
  const tables = () => execaSync("nft", ["-t", "list", "ruleset"]).stdout;
  await sync();
  expect(tables()).not.toContain("vanished");
  for (let round = 0; round < 2; round++) {
    serve(endpoint(A, DRAINING), B);
    await sync();
    clock.now += 1000;
    expect(await sync()).toMatchObject({ kind: "partial" });
    expect(inKernel()).toEqual([`${A} . 8080`]);
    expect(tables().match(/jump vanished-endpoints-check/g)).toHaveLength(2);
    serve(A, B);
    expect(await sync()).toMatchObject({ kind: "partial" });
    expect(inKernel(), "at once, before the chains go").toEqual([]);
    // In the first round they are needed again before they were deleted.
    if (round === 1) await reconciler.deleteStaleChains();
  }
  expect(tables()).not.toContain("vanished");
  expect(tables()).not.toContain("pre-dnat");
  reconciler.requestFullSync("periodic");
  expect((await sync()).deltas).toEqual([]);
});
