import { expect, test } from "vitest";
import { nftProgram } from "../../src/kernel/nft.ts";
import { limitedRun } from "../../src/kernel/nft-limits.ts";
import { runProcess } from "../../src/kernel/process.ts";
import type { Transaction } from "../../src/nft/ast/json.ts";

const ADDRESSES = Array.from({ length: 300_000 }, (_, i) => `10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`);
const DESTINATION = { typeof: { payload: { protocol: "ip", field: "daddr" } } };
const LARGE: Transaction = {
  nftables: [
    { add: { table: { family: "ip", name: "nft-proxy" } } },
    { add: { set: { family: "ip", table: "nft-proxy", name: "cluster-ips", type: DESTINATION } } },
    { add: { element: { family: "ip", table: "nft-proxy", name: "cluster-ips", elem: ADDRESSES } } },
  ],
};

test("nft with too little memory fails with an error that is not a refusal, and succeeds with enough", async () => {
  const check = (memoryBytes: number) =>
    nftProgram({ path: "nft", run: limitedRun(memoryBytes, runProcess) }).check(LARGE);
  await expect(check(80_000_000)).rejects.toMatchObject({
    code: "NFT_FAILED",
    message: expect.stringContaining("emory"),
  });
  await expect(check(1_000_000_000)).resolves.toMatchObject({ bytes: expect.any(Number) });
});
