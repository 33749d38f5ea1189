import { expect, test } from "vitest";
import type { HostFiles } from "../../../src/kernel/host.ts";
import { nftProgram } from "../../../src/kernel/nft.ts";
import { limitedRun, nftMemoryLimit } from "../../../src/kernel/nft-limits.ts";
import type { ProcessResult, RunProcess } from "../../../src/kernel/process.ts";
import type { Transaction } from "../../../src/nft/ast/json.ts";

const DONE: ProcessResult = {
  ...{ exitCode: 0, signal: undefined, stdout: "", stderr: "", startError: undefined },
  ...{ timedOut: false, tooMuchOutput: false, aborted: false, durationMs: 1 },
};

function groupOf(text: string | undefined): HostFiles {
  return {
    read: async () => {
      if (text === undefined) throw new Error("ENOENT");
      return text;
    },
    write: async () => {},
    lines: async function* () {},
  };
}

test.each([
  ["of a container with a limit is half of it", "1342177280\n", 0, 671_088_640],
  ["of a container without a limit is not limited", "max\n", 0, undefined],
  ["of the root control group is not limited", undefined, 0, undefined],
  ["is not limited where no program can do that", "1342177280\n", 127, undefined],
])("the memory of nft %s", async (_, text, exitCode, expected) => {
  expect(await nftMemoryLimit(groupOf(text), async () => ({ ...DONE, exitCode }))).toBe(expected);
});

test("nft gets a memory limit for a large transaction, and none for a small one", async () => {
  const programs: string[] = [];
  const run: RunProcess = async (path, args) => {
    programs.push([path, ...args].join(" "));
    return DONE;
  };
  const nft = nftProgram({ path: "nft", run: limitedRun(5000, run) });
  const withElements = (count: number): Transaction => {
    const elem = Array.from({ length: count }, (_, i) => `10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`);
    return {
      nftables: [{ add: { element: { family: "ip", table: "nft-proxy", name: "cluster-ips", elem } } }],
    };
  };
  await nft.apply(withElements(1));
  await nft.apply(withElements(100_000));
  expect(programs).toEqual(["nft -j -f -", "prlimit --as=5000 nft -j -f -"]);
});
