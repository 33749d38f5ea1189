import { AppError, type ErrorCode } from "../base/errors.ts";
import { firstLine } from "../base/text.ts";
import type { Transaction } from "../nft/ast/json.ts";
import type { ProcessLimits, ProgramEnd } from "./process.ts";

/** The kernel, or nft itself, refused a transaction. Nothing of it was applied. */
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

  /**
   * Whether an object is still in use: some kernels before 6.2 report this for chains that just lost their
   * last element.
   */
  get isBusy(): boolean {
    return this.stderr.includes("Device or resource busy");
  }
}

/**
 * Whether the kernel or our own schema refused the content of a transaction. One service port may be the
 * cause, and must not affect the others.
 */
export function isRefusedByKernel(error: unknown): error is AppError {
  return error instanceof AppError && (error.code === "NFT_REFUSED" || error.code === "INVALID_TRANSACTION");
}

/**
 * Failures that a large transaction may cause. A missing program, or one without permission, fails for any
 * transaction.
 */
const OF_TRANSACTIONS: ReadonlySet<ErrorCode> = new Set(["NFT_FAILED", "NFT_TIMEOUT", "NFT_FEATURE"]);

/**
 * nft was killed, crashed, hung or lacked memory during a transaction. One failure may have any reason; if it
 * repeats, one Service may be the cause.
 */
export class TransactionFailedError extends AppError {
  constructor({ code, message, hint, evidence }: AppError) {
    super(code, message, { hint, evidence });
  }
}

/**
 * Returns a {@link TransactionFailedError} if the transaction may be the cause, otherwise the error itself.
 */
export function ofTransaction(error: unknown): unknown {
  const isOfIt =
    error instanceof AppError && !(error instanceof NftStoppedError) && OF_TRANSACTIONS.has(error.code);
  return isOfIt ? new TransactionFailedError(error) : error;
}

/**
 * A listing or check was stopped or not started because this process stops. This is not a failure, and there
 * is no result.
 */
export class NftStoppedError extends AppError {
  constructor() {
    super("NFT_FAILED", "stopped nft because nft-proxy is stopping");
  }
}

/** A call of nft, for messages. */
export interface NftCall {
  /** The program that was started: nft, or one that starts it. */
  readonly program: string;
  /** The whole command line. */
  readonly command: string;
  readonly limits: ProcessLimits;
}

/**
 * Returns the reason why nft failed; undefined if it worked, and if it or the kernel refused the request. A
 * refusal is caused by the transaction; another failure only if it repeats: see {@link
 * TransactionFailedError}.
 */
export function nftFailure(end: ProgramEnd, call: NftCall): AppError | undefined {
  const { startError, signal, exitCode, stderr } = end;
  if (startError !== undefined) return notStarted(call, startError);
  if (end.tooMuchOutput) {
    return new AppError("NFT_OUTPUT", `nft printed more than ${call.limits.maxOutputBytes} bytes`, {
      hint: "run `nft -t list table ip nft-proxy` to find the large object; nft-proxy rebuilds its tables without objects of other programs",
      evidence: { command: call.command },
    });
  }
  if (end.timedOut) {
    return new AppError("NFT_TIMEOUT", `nft did not end within ${call.limits.timeoutMs / 1000} s`, {
      hint: "check for another program that holds the nftables lock, or for lack of memory",
    });
  }
  if (signal !== undefined) return killed(call, signal);
  if (exitCode === 126 || exitCode === 127) {
    return new AppError("NFT_MISSING", `nft at "${call.program}" cannot run: ${firstLine(stderr)}`, {
      hint: "install nftables 1.1.3 or newer with its libraries, or set --nft-path",
      evidence: { stderr: stderr.trim() },
    });
  }
  return exitCode === 0 ? undefined : lacking(call, stderr);
}

/** Errors of a system that cannot start any process. */
const NO_MORE_PROCESSES: ReadonlySet<string> = new Set(["EAGAIN", "EMFILE", "ENFILE", "ENOMEM"]);

function notStarted({ program }: NftCall, code: string): AppError {
  const isFull = NO_MORE_PROCESSES.has(code);
  return new AppError(isFull ? "NFT_FAILED" : "NFT_MISSING", `cannot start nft at "${program}" (${code})`, {
    hint: isFull
      ? "check for lack of memory, and the limits of processes and open files"
      : "install nftables 1.1.3 or newer, or set --nft-path",
  });
}

/** Signals that end a program that crashes. */
const CRASHES: ReadonlySet<string> = new Set(["SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE"]);

function killed({ command }: NftCall, signal: string): AppError {
  const evidence = { command };
  if (CRASHES.has(signal)) {
    return new AppError("NFT_FEATURE", `nft crashed (${signal})`, {
      hint: "nft 1.0.6 crashes on JSON that it does not know; use nft 1.1.3 or newer, or set --nft-path",
      evidence,
    });
  }
  const hint =
    signal === "SIGKILL"
      ? "the kernel kills it when memory runs out: check the memory limit of the container and the kernel's log"
      : undefined;
  return new AppError("NFT_FAILED", `nft was killed (${signal})`, { hint, evidence });
}

/**
 * Messages of the kernel and of nft about missing resources, for any request, each with a hint. ENFILE ("Too
 * many open files in system") is not among them: the kernel returns it for a full set.
 */
const LACKS: readonly (readonly [said: RegExp, hint: string])[] = [
  [
    /Cannot allocate memory|Out of memory|Memory allocation failure/,
    "memory ran out: check the memory limit of the container and the kernel's log",
  ],
  [
    /No buffer space available|Message too long/,
    "raise net.core.wmem_max on the host: it limits transactions of processes without CAP_NET_ADMIN in the host's user namespace",
  ],
  [
    /Resource temporarily unavailable|Interrupted system call|Too many open files(?! in system)/,
    "try again; if that does not help, check the limits of processes and open files",
  ],
  [/Netlink socket/, "this kernel may lack nf_tables (CONFIG_NF_TABLES)"],
];

function lacking({ command }: NftCall, stderr: string): AppError | undefined {
  const evidence = { command, stderr: stderr.trim() };
  // nft 1.0.6 opens JSON input by this name, which works for files and pipes but not for the socket that
  // Node.js provides.
  if (/Could not open file "\/dev\/stdin"/.test(stderr)) {
    return new AppError("NFT_MISSING", "nft is too old: it cannot read its input from another program", {
      hint: "install nftables 1.1.3 or newer, or set --nft-path",
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
