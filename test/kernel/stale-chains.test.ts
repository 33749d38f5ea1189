import { execaSync } from "execa";
import { beforeEach, expect, test } from "vitest";
import { nftProgram } from "../../src/kernel/nft.ts";
import type { NftRefusedError } from "../../src/kernel/nft-errors.ts";
import { readKernel } from "../../src/kernel/read-kernel.ts";
import type { Ruleset } from "../../src/nft/ast/ruleset.ts";
import { diffRuleset } from "../../src/nft/delta.ts";
import { toTransaction } from "../../src/nft/transaction.ts";
import { fullSync } from "../../src/sync/full-sync.ts";
import { renderAll, service, slice } from "../support/build.ts";
import { nftTables } from "../support/nft-tables.ts";

// Some kernels before 6.2 answer EBUSY if one transaction deletes a chain and the last element that refers to
// it. The version does not tell which kernels do (Debian's 5.10.0-32 does not), so the tests try it.

const nft = nftProgram({ path: "nft" });
const tables = nftTables(nft);

/** Returns the rules for a Service with this limit: 2 needs the chain `client-limit-2`. */
function rulesFor(connections: number): Ruleset {
  const limited = service({ name: "web", clientLimits: { connections } });
  return renderAll({ services: [limited], slices: [slice({ service: "web", endpoints: ["10.244.1.11"] })] })
    .state.ruleset;
}

const TWO = rulesFor(2);
const THREE = rulesFor(3);

beforeEach(async () => {
  execaSync("nft", ["flush", "ruleset"]);
  await fullSync(nft, tables, TWO);
});

/**
 * Deletes a chain with its last element in one transaction.
 * @returns nft's refusal, or undefined if the kernel accepts it
 */
async function refusalOfOneTransaction(): Promise<unknown> {
  return await nft.apply(toTransaction(diffRuleset(TWO, THREE))).then(
    () => undefined,
    (error: unknown) => error,
  );
}

test("a full sync that deletes a chain with its last element succeeds, with another transaction if the kernel is busy", async () => {
  const refusal = await refusalOfOneTransaction();
  if (refusal !== undefined) expect((refusal as NftRefusedError).isBusy).toBe(true);
  await fullSync(nft, tables, TWO);
  const { applied } = await fullSync(nft, tables, THREE);
  // The new chain is added first.
  expect(applied).toHaveLength(refusal === undefined ? 2 : 3);
  const kernel = await readKernel(tables, ["ip", "ip6"]);
  expect(kernel.kind === "read" && diffRuleset(kernel.ruleset, THREE)).toEqual([]);
  expect((await fullSync(nft, tables, THREE)).deltas).toEqual([]);
});
