import { expect, test } from "vitest";
import { namespaceLock } from "../../../src/daemon/namespace-lock.ts";

test("one of two daemons takes the lock of a network namespace, and the other one gets it after its release", async () => {
  const name = `\0nft-proxy-test-${process.pid}`.padEnd(108, "\0");
  const [first, second] = [namespaceLock(name), namespaceLock(name)];
  expect([await first.take(), await second.take()]).toEqual([true, false]);
  first.release();
  await expect.poll(() => second.take(), { timeout: 30_000 }).toBe(true);
  second.release();
});
