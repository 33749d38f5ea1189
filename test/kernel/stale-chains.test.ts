import { release } from "node:os";
import { execaSync } from "execa";
import { beforeEach, expect, test } from "vitest";
import { Nft, type NftRefusedError } from "../../src/kernel/nft.ts";
import { readKernel } from "../../src/kernel/read-kernel.ts";
import type { Ruleset } from "../../src/nft/ast/ruleset.ts";
import { diffRuleset } from "../../src/nft/delta.ts";
import { toTransaction } from "../../src/nft/transaction.ts";
import { fullSync } from "../../src/sync/full-sync.ts";
import { renderAll, service, slice } from "../support/build.ts";

// Kernels before 6.2 answer EBUSY when a chain is deleted in the transaction that deletes the last element that leads to it.

const [major = 0, minor = 0] = release().split(".").map(Number);
const isBusyKernel = major < 6 || (major === 6 && minor < 2);

const nft = new Nft({ path: "nft" });

/** The rules for a Service of so many endpoints: 2 need the chain `balance-2`, 3 need `balance-3`. */
function rulesFor(endpoints: readonly string[]): Ruleset {
  return renderAll({ services: [service({ name: "web" })], slices: [slice({ service: "web", endpoints })] }).state
    .ruleset;
}

const TWO = rulesFor(["10.244.1.11", "10.244.1.12"]);
const THREE = rulesFor(["10.244.1.11", "10.244.1.12", "10.244.1.13"]);

beforeEach(async () => {
  execaSync("nft", ["flush", "ruleset"]);
  await fullSync(nft, TWO);
});

test("a full sync that deletes a chain with its last element succeeds, in a second transaction where the kernel is busy", async () => {
  const { applied } = await fullSync(nft, THREE);
  expect(applied).toHaveLength(isBusyKernel ? 2 : 1);
  const kernel = await readKernel(nft, ["ip", "ip6"]);
  expect(kernel.kind === "read" && diffRuleset(kernel.ruleset, THREE)).toEqual([]);
  expect((await fullSync(nft, THREE)).deltas).toEqual([]);
});

test("one transaction that deletes a chain with its last element is refused as busy by kernels before 6.2 only", async () => {
  const refusal = await nft.apply(toTransaction(diffRuleset(TWO, THREE))).then(
    () => undefined,
    (error: unknown) => error,
  );
  if (isBusyKernel) expect((refusal as NftRefusedError).isBusy).toBe(true);
  else expect(refusal).toBeUndefined();
});
