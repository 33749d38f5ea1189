import { readFileSync } from "node:fs";
import { execa } from "execa";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { FAMILIES } from "../../src/base/family.ts";
import { Nft } from "../../src/kernel/nft.ts";
import { readKernel } from "../../src/kernel/read-kernel.ts";
import { diffRuleset } from "../../src/nft/delta.ts";
import { rebuildTransaction, toTransaction } from "../../src/nft/transaction.ts";
import { debianNft } from "../support/debian-program.ts";
import { townRuleset } from "../support/town-ruleset.ts";

const OLD = debianNft("bookworm");
const NEWEST = debianNft("sid");
const BY_TYPE = readFileSync(new URL("../fixtures/town/declared-by-type.json", import.meta.url), "utf8");

async function run(nft: string, args: readonly string[], input = ""): Promise<{ readonly ended: string }> {
  const { exitCode, signal } = await execa(nft, args, { input, reject: false, maxBuffer: 50_000_000 });
  return { ended: signal ?? `exit ${exitCode}` };
}

const flush = () => execa("nft", ["flush", "ruleset"]);
beforeEach(flush);
afterEach(flush);

describe("a host whose own nft is Debian 12's 1.0.6", () => {
  test.each(["list tables", "list ruleset", "-j list ruleset"])(
    "runs nft %s beside our tables without a crash",
    async (command) => {
      await new Nft({ path: "nft" }).apply(rebuildTransaction(townRuleset("town")));
      expect(await run(OLD, command.split(" "))).toEqual({ ended: "exit 0" });
    },
  );

  test("has an nft that crashes on tables declared by type names, which is why ours are not", async () => {
    expect(await run("nft", ["-j", "-f", "-"], BY_TYPE)).toEqual({ ended: "exit 0" });
    expect(await run(OLD, ["list", "ruleset"])).toEqual({ ended: "SIGSEGV" });
  });
});

describe("the kernel's rules are read back as they were written", () => {
  test.each([
    ["nft of this machine, as it printed them", "nft", "nft"],
    ["the newest nft of Debian, as it printed them", NEWEST, NEWEST],
    ["the newest nft, written by this machine's", "nft", NEWEST],
    ["nft of this machine, written by the newest", NEWEST, "nft"],
  ])("by %s", async (_, writer, reader) => {
    const desired = townRuleset("town");
    await new Nft({ path: writer }).apply(rebuildTransaction(desired));
    const kernel = await readKernel(new Nft({ path: reader }), FAMILIES);
    expect(kernel.kind).toBe("read");
    if (kernel.kind === "read") expect(diffRuleset(kernel.ruleset, desired)).toEqual([]);
  });

  test.each([
    ["this machine's", "nft"],
    ["the newest", NEWEST],
  ])("after %s nft changed existing maps", async (_, path) => {
    const nft = new Nft({ path });
    const [before, after] = [townRuleset("town-after"), townRuleset("town")];
    await nft.apply(rebuildTransaction(before));
    await nft.apply(toTransaction(diffRuleset(before, after)));
    const kernel = await readKernel(nft, FAMILIES);
    expect(kernel.kind === "read" && diffRuleset(kernel.ruleset, after)).toEqual([]);
  });
});
