import { expect, test } from "vitest";
import { affinityEntry } from "../../../src/kernel/affinity-entry.ts";
import { Nft } from "../../../src/kernel/nft.ts";
import type { ProcessResult } from "../../../src/kernel/process.ts";

const CLIENT = "10.0.0.1";
const SERVICE_PORT = 0xc000_4000;

const ANSWER: ProcessResult = {
  exitCode: 0,
  stdout: "",
  stderr: "",
  signal: undefined,
  startError: undefined,
  timedOut: false,
  tooMuchOutput: false,
  aborted: false,
  durationMs: 1,
};

function answering(result: Partial<ProcessResult>): { readonly nft: Nft; readonly asked: string[][] } {
  const asked: string[][] = [];
  const run = async (_path: string, args: readonly string[]): Promise<ProcessResult> => {
    asked.push([...args]);
    return { ...ANSWER, ...result };
  };
  return { nft: new Nft({ path: "nft", run }), asked };
}

const printed = (expires: string) => `table ip nft-proxy {
	map affinity-clients {
		typeof meta priority . ip daddr : meta priority
		size 1048576
		flags dynamic,timeout
		elements = { c000:4000 . ${CLIENT} timeout 10m expires ${expires} : c000:5234 }
	}
}
`;

test.each([
  ["9m58s824ms", "9m58s"],
  ["10m", "10m"],
  ["3h2m1s", "3h2m1s"],
  ["824ms", "0s"],
])("affinityEntry reads the remaining time of an entry (%s)", async (expires, left) => {
  const { nft, asked } = answering({ stdout: printed(expires) });
  expect(await affinityEntry(nft, "ip", "affinity-clients", CLIENT, SERVICE_PORT)).toEqual({
    family: "ip",
    map: "affinity-clients",
    key: `${SERVICE_PORT} . ${CLIENT}`,
    value: String(0xc000_5234),
    expires: left,
  });
  expect(asked).toEqual([["get", "element", "ip", "nft-proxy", "affinity-clients", `{ c000:4000 . ${CLIENT} }`]]);
});

test("affinityEntry is undefined for a client without an entry", async () => {
  const { nft } = answering({ exitCode: 1, stderr: "Error: Could not process rule: No such file or directory\n" });
  expect(await affinityEntry(nft, "ip", "affinity-clients", CLIENT, SERVICE_PORT)).toBeUndefined();
});

test("affinityEntry rejects with any other failure of nft", async () => {
  const { nft } = answering({ exitCode: 1, stderr: "Error: Could not process rule: Invalid argument\n" });
  await expect(affinityEntry(nft, "ip", "affinity-clients", CLIENT, SERVICE_PORT)).rejects.toMatchObject({
    code: "NFT_OUTPUT",
  });
});
