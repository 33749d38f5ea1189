import { afterEach, expect, test } from "vitest";
import { nftProgram } from "../../src/kernel/nft.ts";
import { costlyTables } from "../../src/kernel/others-sets.ts";
import { runProcess } from "../../src/kernel/process.ts";
import { systemClock } from "../../src/kernel/system-clock.ts";

async function load(text: string): Promise<void> {
  const { stderr } = await runProcess("nft", ["-f", "-"], text, {
    timeoutMs: 60_000,
    maxOutputBytes: 10_000,
  });
  expect(stderr).toBe("");
}

afterEach(() => load("flush ruleset"));

const lines = (count: number, line: (index: number) => string) =>
  Array.from({ length: count }, (_, i) => line(i)).join("\n");

test("other software's tables with 5,000 sets or more are reported, but not ours and not smaller ones", async () => {
  await load(`
    table ip mangle { chain c { tcp dport 80 accept; }; }
    table ip6 few {
      ${lines(4999, (i) => `set s${i} { type ipv6_addr; }`)}
    }
    table inet firewall {
      ${lines(5500, (i) => `set s${i} { type ipv4_addr; }`)}
    }
    table ip nft-proxy {
      ${lines(5000, (i) => `set s${i} { type ipv4_addr; }`)}
    }
    table ip kube-proxy { chain c {
      ${lines(6000, (i) => `tcp dport { ${i}, 65535 } accept`)}
    }; }`);
  expect(await costlyTables(nftProgram({ path: "nft" }), systemClock)).toEqual([
    { table: "ip kube-proxy", sets: 6000, ms: 12 },
    { table: "inet firewall", sets: 5500, ms: 11 },
  ]);
});

test("the report is empty without tables", async () => {
  expect(await costlyTables(nftProgram({ path: "nft" }), systemClock)).toEqual([]);
});
