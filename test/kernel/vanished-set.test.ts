import { execaSync } from "execa";
import { beforeEach, expect, test } from "vitest";
import { VanishedEndpoints } from "../../src/conntrack/vanished-endpoints.ts";
import { NftProgram } from "../../src/kernel/nft.ts";
import { nftTables } from "../../src/kernel/table-reader.ts";
import { MOST_VANISHED, VANISHED_SECONDS } from "../../src/ruleset/sets.ts";
import { Reconciler } from "../../src/sync/reconciler.ts";
import { cacheOf, service, slice, testNodeContext } from "../support/build.ts";

// The set of vanished endpoints in the real kernel. The kernel must not refuse a sync, whatever the state of
// the set.

const nft = new NftProgram({ path: "nft" });
const [A, B] = ["10.244.2.11", "10.244.2.12"] as const;

function start() {
  const cache = cacheOf({ services: [service()], slices: [slice({ endpoints: [A, B] })] });
  const clock = { now: 1_000_000 };
  const vanished = new VanishedEndpoints({ cache, now: () => clock.now, delayMs: 0 });
  const reconciler = new Reconciler({ cache, nft, tables: nftTables(nft), vanished });
  const nodeContext = testNodeContext({ resetVanished: true });
  const sync = () => reconciler.sync({ nodeContext, services: cache.takeDirty() });
  const serve = (...endpoints: readonly string[]) => cache.putSlice(slice({ endpoints, family: "ip" }));
  return { clock, sync, serve };
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
