import { expect, test } from "vitest";
import { chainCheck } from "../../../src/features/fast-path/chain-check.ts";
import type { HostChain } from "../../../src/features/seam/feature.ts";

const base = (table: string, hook: string): HostChain => ({
  table,
  name: `chain-${hook}`,
  base: { hook, prio: 0, policy: "accept" },
});
const UNCONCERNED = [
  base("ip nft-proxy", "forward"),
  base("inet fw", "input"),
  base("bridge filter", "forward"),
  { table: "inet fw", name: "web" },
];

test("doctor finds nothing if no chain of others misses packets on the fast path", () => {
  expect(chainCheck.judge(UNCONCERNED)).toEqual({
    level: "ok",
    found: "nft and this kernel have flow tables, and no base chain of other software misses packets",
  });
});

test("doctor names other software's base chains that miss packets on the fast path", () => {
  const chains = [...UNCONCERNED, base("inet fw", "forward"), base("ip mangle", "postrouting")];
  expect(chainCheck.judge(chains)).toMatchObject({
    level: "warning",
    found:
      "2 base chains of other software miss packets on the fast path: inet fw chain-forward (forward) and ip mangle chain-postrouting (postrouting)",
  });
});
