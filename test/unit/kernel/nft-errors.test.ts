import { expect, test } from "vitest";
import { type Nft, nftProgram } from "../../../src/kernel/nft.ts";
import { NftRefusedError } from "../../../src/kernel/nft-errors.ts";
import { listTable } from "../../../src/kernel/nft-listings.ts";
import type { ProgramEnd } from "../../../src/kernel/process.ts";
import type { Transaction } from "../../../src/nft/ast/json.ts";

const ENDED: ProgramEnd = {
  exitCode: 1,
  signal: undefined,
  stderr: "",
  startError: undefined,
  timedOut: false,
  tooMuchOutput: false,
  aborted: false,
};
const TRANSACTION: Transaction = { nftables: [{ add: { table: { family: "ip", name: "nft-proxy" } } }] };

/** An nft that ends in one way, whatever it is asked. */
function ending(end: Partial<ProgramEnd>, stdout = ""): Nft {
  const result = { ...ENDED, ...end };
  return nftProgram({
    path: "nft",
    run: async () => ({ ...result, stdout, durationMs: 1 }),
  });
}

const killed = (signal: string): Partial<ProgramEnd> => ({ exitCode: undefined, signal });
const cannotStart = (startError: string): Partial<ProgramEnd> => ({ exitCode: undefined, startError });
const refused = (reason: string): Partial<ProgramEnd> => ({
  stderr: `internal:0:0-0: Error: Could not process rule: ${reason}\n\n`,
});

/** Each as nft 1.1.3 prints it, or as the kernel's word for the error would come through it. */
test.each<[string, Partial<ProgramEnd>, string, string, string]>([
  [
    "is missing",
    cannotStart("ENOENT"),
    "NFT_MISSING",
    'cannot start nft at "nft" (ENOENT)',
    "install nftables",
  ],
  [
    "may not be run",
    cannotStart("EACCES"),
    "NFT_MISSING",
    'cannot start nft at "nft" (EACCES)',
    "install nftables",
  ],
  [
    "finds no process",
    cannotStart("EAGAIN"),
    "NFT_FAILED",
    'cannot start nft at "nft" (EAGAIN)',
    "limits of processes",
  ],
  [
    "lacks a library, as in the middle of an upgrade",
    {
      exitCode: 127,
      stderr:
        "nft: error while loading shared libraries: libnftables.so.1: cannot open shared object file: No such file or directory\n",
    },
    "NFT_MISSING",
    'nft at "nft" cannot run: nft: error while loading shared libraries: libnftables.so.1',
    "with its libraries",
  ],
  [
    "is too old to read what it is given, as 1.0.6",
    { stderr: 'internal:0:0-0: Error: Could not open file "/dev/stdin": No such device or address\n\n\n' },
    "NFT_MISSING",
    "nft is too old: it cannot read its input from another program",
    "nftables 1.1.3 or newer",
  ],
  ["hangs", { ...killed("SIGKILL"), timedOut: true }, "NFT_TIMEOUT", "nft did not end within 1", "lock"],
  [
    "prints without an end",
    { ...killed("SIGKILL"), tooMuchOutput: true },
    "NFT_OUTPUT",
    "nft printed more than",
    "nft -t list table ip nft-proxy",
  ],
  ["crashes", killed("SIGSEGV"), "NFT_FEATURE", "nft crashed (SIGSEGV)", "nft 1.1.3 or newer"],
  ["is killed for its memory", killed("SIGKILL"), "NFT_FAILED", "nft was killed (SIGKILL)", "memory limit"],
  [
    "may not use nftables",
    {
      stderr:
        "Operation not permitted (you must be root)\nnetlink: Error: cache initialization failed: Operation not permitted\n",
    },
    "HOST",
    "not allowed to use nftables: Operation not permitted (you must be root)",
    "CAP_NET_ADMIN",
  ],
  [
    "gets no memory of the kernel",
    refused("Cannot allocate memory"),
    "NFT_FAILED",
    "Cannot allocate memory",
    "memory",
  ],
  [
    "has no room to send",
    refused("No buffer space available"),
    "NFT_FAILED",
    "No buffer space available",
    "wmem_max",
  ],
  ["may not send so much", refused("Message too long"), "NFT_FAILED", "Message too long", "wmem_max"],
  [
    "finds no nftables in the kernel",
    { exitCode: 3, stderr: "netlink.c:60: Unable to initialize Netlink socket: Protocol not supported\n" },
    "NFT_FAILED",
    "Unable to initialize Netlink socket",
    "CONFIG_NF_TABLES",
  ],
])(
  "an nft that %s is told from a refusal, whatever it was asked",
  async (_what, end, code, message, hint) => {
    const expected = { code, message: expect.stringContaining(message), hint: expect.stringContaining(hint) };
    const nft = ending(end, '{"nftables": [{"meta');
    await expect(nft.apply(TRANSACTION)).rejects.toMatchObject(expected);
    await expect(nft.check(TRANSACTION)).rejects.toMatchObject(expected);
    await expect(listTable(nft, "ip")).rejects.toMatchObject(expected);
  },
);

test.each(["Invalid argument", "File exists", "Device or resource busy", "Too many open files in system"])(
  "a refusal stays one: %s",
  async (reason) => {
    await expect(ending(refused(reason)).apply(TRANSACTION)).rejects.toBeInstanceOf(NftRefusedError);
    await expect(listTable(ending(refused(reason)), "ip")).rejects.toMatchObject({ code: "NFT_OUTPUT" });
  },
);

test.each([
  "Error: No such file or directory\nlist table ip nft-proxy\n              ^^^^^^^^^\n",
  "Error: Could not process rule: No such file or directory\n",
])("what is not there is no failure: %j", async (stderr) => {
  const nft = ending({ stderr });
  expect(await listTable(nft, "ip")).toBeUndefined();
});
