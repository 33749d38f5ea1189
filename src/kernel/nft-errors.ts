import { AppError, type ErrorCode } from "../base/errors.ts";
import type { Transaction } from "../nft/ast/json.ts";
import type { ProcessLimits, ProgramEnd } from "./process.ts";

/** The kernel, or nft on its behalf, refused a transaction: nothing of it was applied. */
export class NftRefusedError extends AppError {
  /** The refused transaction. */
  readonly transaction: Transaction;
  /** nft's whole error output. */
  readonly stderr: string;

  constructor(transaction: Transaction, stderr: string) {
    super("NFT_REFUSED", `nft refused the transaction: ${firstLine(stderr)}`, {
      evidence: { stderr: stderr.trim(), commands: String(transaction.nftables.length) },
    });
    this.transaction = transaction;
    this.stderr = stderr;
  }

  /** Something is still in use: what some kernels before 6.2 say of chains that lost their last element just now. */
  get isBusy(): boolean {
    return this.stderr.includes("Device or resource busy");
  }
}

/**
 * Whether a transaction was refused for what it says: by the kernel, or by our own schema before it left. One
 * service port may be the cause, and the others must not suffer for it.
 */
export function isRefusedByKernel(error: unknown): error is AppError {
  return error instanceof AppError && (error.code === "NFT_REFUSED" || error.code === "INVALID_TRANSACTION");
}

/** Failures that a large transaction may cause; a program that is missing, or not allowed to work, fails for any. */
const OF_TRANSACTIONS: ReadonlySet<ErrorCode> = new Set(["NFT_FAILED", "NFT_TIMEOUT", "NFT_FEATURE"]);

/**
 * nft was killed, crashed, hung or lacked memory over a transaction. Once, that may be anything; where it repeats, one
 * Service may be the cause.
 */
export class TransactionFailedError extends AppError {
  constructor({ code, message, hint, evidence }: AppError) {
    super(code, message, { ...(hint === undefined ? {} : { hint }), evidence });
  }
}

/** Returns the failure of a transaction as such; any other error as it is. */
export function ofTransaction(error: unknown): unknown {
  const isOfIt =
    error instanceof AppError && !(error instanceof NftStoppedError) && OF_TRANSACTIONS.has(error.code);
  return isOfIt ? new TransactionFailedError(error) : error;
}

/** A listing or a check was ended, or not begun, because this process stops: nothing is wrong, and nothing is known. */
export class NftStoppedError extends AppError {
  constructor() {
    super("NFT_FAILED", "nft was ended because nft-proxy stops");
  }
}

/** How nft was called, for messages. */
export interface NftCall {
  /** The program that was started: nft, or the one that starts it. */
  readonly program: string;
  /** The whole command line. */
  readonly command: string;
  readonly limits: ProcessLimits;
}

/**
 * Why nft could not do its work; undefined when it could, and when it or the kernel refused what it was asked. A refusal has
 * its cause in the transaction; another failure only where it repeats: see {@link TransactionFailedError}.
 */
export function nftFailure(end: ProgramEnd, call: NftCall): AppError | undefined {
  const { startError, signal, exitCode, stderr } = end;
  if (startError !== undefined) return notStarted(call, startError);
  if (end.tooMuchOutput) {
    return new AppError("NFT_OUTPUT", `nft printed more than ${call.limits.maxOutputBytes} bytes`, {
      hint: "look for what is so large: by `nft -t list table ip nft-proxy` in our tables, which are made anew without what others put there",
      evidence: { command: call.command },
    });
  }
  if (end.timedOut) {
    return new AppError("NFT_TIMEOUT", `nft did not end within ${call.limits.timeoutMs / 1000} s`, {
      hint: "look for another program that holds the nftables lock, for a lack of memory, or for changes that come faster than nft lists: where socat is installed, nft does not list our maps",
    });
  }
  if (signal !== undefined) return killed(call, signal);
  if (exitCode === 126 || exitCode === 127) {
    return new AppError("NFT_MISSING", `nft at "${call.program}" cannot run: ${firstLine(stderr)}`, {
      hint: "install nftables 1.1.3 or newer with its libraries, or name it with --nft-path",
      evidence: { stderr: stderr.trim() },
    });
  }
  return exitCode === 0 ? undefined : lacking(call, stderr);
}

/** The first line of what nft printed. */
export function firstLine(text: string): string {
  return text.trim().split("\n", 1)[0] ?? "";
}

/** Errors of a system that can start no process, of which nft is not the cause. */
const NO_MORE_PROCESSES: ReadonlySet<string> = new Set(["EAGAIN", "EMFILE", "ENFILE", "ENOMEM"]);

function notStarted({ program }: NftCall, code: string): AppError {
  const isFull = NO_MORE_PROCESSES.has(code);
  return new AppError(isFull ? "NFT_FAILED" : "NFT_MISSING", `cannot start nft at "${program}" (${code})`, {
    hint: isFull
      ? "look for a lack of memory, and at the limits of processes and open files"
      : "install nftables 1.1.3 or newer, or name it with --nft-path",
  });
}

/** The signals by which a program crashes. */
const CRASHES: ReadonlySet<string> = new Set(["SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE"]);

function killed({ command }: NftCall, signal: string): AppError {
  const evidence = { command };
  if (CRASHES.has(signal)) {
    return new AppError("NFT_FEATURE", `nft crashed (${signal})`, {
      hint: "nft 1.0.6 crashes on JSON that it does not know; use nft 1.1.3 or newer, or --nft-path",
      evidence,
    });
  }
  const hint =
    "the kernel kills it when memory runs out: see the memory limit of the container, and the kernel's log";
  return new AppError(
    "NFT_FAILED",
    `nft was killed (${signal})`,
    signal === "SIGKILL" ? { hint, evidence } : { evidence },
  );
}

/**
 * Messages of the kernel and of nft for a lack that has nothing to do with what was asked, with a hint. ENFILE ("Too many
 * open files in system") is the kernel's word for a full set.
 */
const LACKS: readonly (readonly [said: RegExp, hint: string])[] = [
  [
    /Cannot allocate memory|Out of memory|Memory allocation failure/,
    "memory ran out: see the memory limit of the container, and the kernel's log",
  ],
  [
    /No buffer space available|Message too long/,
    "raise net.core.wmem_max on the host: without CAP_NET_ADMIN in the host's user namespace it limits a transaction",
  ],
  [
    /Resource temporarily unavailable|Interrupted system call|Too many open files(?! in system)/,
    "try again, and look at the limits of processes and open files if that does not help",
  ],
  [/Netlink socket/, "this kernel may lack nf_tables (CONFIG_NF_TABLES)"],
];

function lacking({ command }: NftCall, stderr: string): AppError | undefined {
  const evidence = { command, stderr: stderr.trim() };
  // 1.0.6 opens JSON input by this name, which works for a file or a pipe, and not for the socket that Node.js gives it.
  if (/Could not open file "\/dev\/stdin"/.test(stderr)) {
    return new AppError("NFT_MISSING", "nft is too old: it cannot read its input from another program", {
      hint: "install nftables 1.1.3 or newer, or name it with --nft-path",
      evidence,
    });
  }
  if (/Operation not permitted/.test(stderr)) {
    return new AppError("HOST", `not allowed to use nftables: ${firstLine(stderr)}`, {
      hint: "run as root or with CAP_NET_ADMIN in this network namespace",
      evidence,
    });
  }
  const hint = LACKS.find(([said]) => said.test(stderr))?.[1];
  if (hint === undefined) return undefined;
  return new AppError("NFT_FAILED", `nft failed: ${firstLine(stderr)}`, { hint, evidence });
}
