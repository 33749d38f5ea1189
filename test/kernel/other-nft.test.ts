import { execa } from "execa";
import { afterEach, describe, expect, test } from "vitest";
import { FAMILIES } from "../../src/base/family.ts";
import { REFUSED } from "../../src/features/refusal-record/rules.ts";
import { nftProgram } from "../../src/kernel/nft.ts";
import { readKernel } from "../../src/kernel/read-kernel.ts";
import type { Ruleset } from "../../src/nft/ast/ruleset.ts";
import { diffRuleset } from "../../src/nft/delta.ts";
import { rebuildTransaction, toTransaction } from "../../src/nft/transaction.ts";
import { AFFINITY, LISTS } from "../../src/ruleset/sets.ts";
import { affinityKey } from "../support/affinity-entries.ts";
import { debianNft } from "../support/debian-program.ts";
import { everyRule } from "../support/every-rule.ts";
import { expectElements, NetlinkSocket } from "../support/netlink-socket.ts";
import { nftTables } from "../support/nft-tables.ts";
import { townRuleset } from "../support/town-ruleset.ts";

const OLD = debianNft("bookworm");
const NEWEST = debianNft("sid");

const RULESETS: readonly (readonly [name: string, ruleset: Ruleset])[] = [
  ["the recorded town", townRuleset("town")],
  ["every kind of rule", everyRule()],
];

async function run(nft: string, args: readonly string[], input = ""): Promise<{ readonly ended: string }> {
  const { exitCode, signal } = await execa(nft, args, { input, reject: false, maxBuffer: 50_000_000 });
  return { ended: signal ?? `exit ${exitCode}` };
}

const flush = () => execa("nft", ["flush", "ruleset"]);
afterEach(flush);

/** Adds elements to the sets and maps that packets fill, as far as the tables have them. */
async function fill(ruleset: Ruleset): Promise<void> {
  for (const [family, client] of [
    ["ip", "192.0.2.1"],
    ["ip6", "fd00:c0::1"],
  ] as const) {
    const frontend = [...(ruleset[family]?.sets.get(LISTS)?.elements.keys() ?? [])][0];
    const entry = `${affinityKey(client, 0xc000_4000)} timeout 600s : c000:4004`;
    const refusal = `${client} . ${frontend} timeout 1h counter packets 1 bytes 60`;
    await execa("nft", [`add element ${family} nft-proxy ${AFFINITY} { ${entry} }`]);
    await execa("nft", [`add element ${family} nft-proxy ${REFUSED} { ${refusal} }`]);
  }
}

describe("a host whose own nft is Debian 12's 1.0.6", () => {
  const commands = [
    "list tables",
    "list ruleset",
    "-j list ruleset",
    ...FAMILIES.flatMap((family) => ["", "-j "].map((json) => `${json}list table ${family} nft-proxy`)),
  ];

  test.each(RULESETS)("and has our tables with %s lists them without a crash", async (_, ruleset) => {
    await nftProgram({ path: "nft" }).apply(rebuildTransaction(ruleset));
    await fill(ruleset);
    for (const command of commands)
      expect(await run(OLD, command.split(" ")), command).toEqual({ ended: "exit 0" });
  });

  test("crashes nft with a map declared by type names, so ours are not declared that way", async () => {
    const declared = "table ip other { map by-type { type ipv4_addr : classid; }; }";
    expect(await run("nft", ["-f", "-"], declared)).toEqual({ ended: "exit 0" });
    expect(await run(OLD, ["list", "ruleset"])).toEqual({ ended: "SIGSEGV" });
  });
});

const NFTS = [
  ["this machine's nft, which also wrote them", "nft", "nft"],
  ["Debian's newest nft, which also wrote them", NEWEST, NEWEST],
  ["the newest nft, after this machine's nft wrote them", "nft", NEWEST],
  ["this machine's nft, after the newest nft wrote them", NEWEST, "nft"],
] as const;

describe("the kernel's rules are listed as they were written", () => {
  test.each(RULESETS.flatMap(([name, desired]) => NFTS.map((nfts) => [name, ...nfts, desired] as const)))(
    "of %s, by %s",
    async (_name, _nfts, writer, reader, desired) => {
      await nftProgram({ path: writer }).apply(rebuildTransaction(desired));
      await fill(desired);
      const kernel = await readKernel(nftTables(nftProgram({ path: reader })), FAMILIES);
      expect(kernel.kind).toBe("read");
      if (kernel.kind === "read") expect(diffRuleset(kernel.ruleset, desired)).toEqual([]);
    },
  );

  test.each([
    ["this machine's", "nft"],
    ["the newest", NEWEST],
  ])("after %s nft changed existing maps", async (_, path) => {
    const nft = nftProgram({ path });
    const [before, after] = [townRuleset("town-after"), townRuleset("town")];
    await nft.apply(rebuildTransaction(before));
    await nft.apply(toTransaction(diffRuleset(before, after)));
    const kernel = await readKernel(nftTables(nft), FAMILIES);
    expect(kernel.kind === "read" && diffRuleset(kernel.ruleset, after)).toEqual([]);
  });
});

describe("the newest nft", () => {
  test.each(RULESETS)("writes the elements of %s as the same bytes", async (_, ruleset) => {
    await nftProgram({ path: NEWEST }).apply(rebuildTransaction(ruleset));
    const socket = new NetlinkSocket();
    try {
      await expectElements(socket, ruleset);
    } finally {
      await socket.close();
    }
  });
});
