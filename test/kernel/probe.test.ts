import { describe, expect, test } from "vitest";
import { rules } from "../../src/features/fast-path/rules.ts";
import { type Nft, nftProgram } from "../../src/kernel/nft.ts";
import { tableNames } from "../../src/kernel/nft-listings.ts";
import { probeFeatures, probeNft } from "../../src/kernel/probe.ts";
import { type RunProcess, runProcess } from "../../src/kernel/process.ts";
import { partFeatures, requiredFeatures } from "../../src/ruleset/required-features.ts";

/** Makes an nft without a feature: it refuses every transaction that uses the feature. */
function nftWithout(word: string): Nft {
  const run: RunProcess = async (path, args, input, limits) => {
    const result = await runProcess(path, args, input, limits);
    return input.includes(word) ? { ...result, exitCode: 1, stderr: `Error: no ${word}` } : result;
  };
  return nftProgram({ path: "nft", run });
}

describe("the probe of nft and the kernel", () => {
  test("finds every feature in the tools of these tests, and leaves nothing behind", async () => {
    const nft = nftProgram({ path: "nft" });
    const before = await tableNames(nft);
    await probeFeatures(nft, requiredFeatures());
    expect(await tableNames(nft)).toEqual(before);
  });

  test.each([
    ["dnat to a map lookup by a random number", '"dnat":', 2],
    ["dynamic maps with timeouts that rules update and delete from", '"dynamic"', 1],
    ["maps with counters", '"counter"', 1],
    ["fib lookups", '"fib"', 1],
    ["reject", '"reject"', 1],
  ])("names %s if that is refused", async (name, word, lacking) => {
    const refused = await probeFeatures(nftWithout(word), requiredFeatures()).catch(
      (error: Error) => error.message,
    );
    expect(refused).toContain(name);
    expect(String(refused).split("; ")).toHaveLength(lacking);
  });

  test("finds no fast path in a kernel that would lose idle connections", async () => {
    const features = partFeatures(rules, rules.needs);
    await expect(probeFeatures(nftWithout('"last"'), features)).rejects.toMatchObject({
      message: expect.stringContaining("flow tables that preserve the connection timeouts"),
      hint: expect.stringContaining("use Linux 5.14 or newer"),
    });
  });

  test("finds a program that answers 0 and does nothing", async () => {
    await expect(probeNft(nftProgram({ path: "true" }), requiredFeatures())).rejects.toMatchObject({
      code: "NFT_FEATURE",
      message: expect.stringContaining('nft at "true" does nothing'),
    });
    await probeNft(nftProgram({ path: "nft" }), requiredFeatures());
  });

  test("names only the missing feature", async () => {
    await expect(probeFeatures(nftWithout('"masquerade"'), requiredFeatures())).rejects.toMatchObject({
      code: "NFT_FEATURE",
      message: 'nft at "nft" or this kernel lacks: masquerading with random ports',
      hint: expect.stringContaining("nft_masq"),
    });
  });
});
