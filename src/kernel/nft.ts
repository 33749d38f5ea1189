import { AppError } from "../base/errors.ts";
import { firstOf } from "../base/signals.ts";
import { firstLine } from "../base/text.ts";
import type { Transaction } from "../nft/ast/json.ts";
import { transactionText } from "../nft/transaction-text.ts";
import { NftRefusedError, NftStoppedError, nftFailure, ofTransaction } from "./nft-errors.ts";
import { NFT_LIMITS, transactionLimits } from "./nft-limits.ts";
import { type ProcessLimits, type ProcessResult, type RunProcess, runProcess } from "./process.ts";

/**
 * Access to nftables through the program nft; the only way to change it. Knows how to call nft, not the
 * contents of transactions and listings.
 */
export interface Nft {
  /** Path or name of the program. */
  readonly path: string;
  /** Number of applied transactions. */
  readonly commits: number;
  /**
   * Applies all of a transaction or nothing.
   * @throws AppError INVALID_TRANSACTION before anything is sent; {@link NftRefusedError}; {@link
   * TransactionFailedError} with NFT_TIMEOUT, NFT_FEATURE (a crash) or NFT_FAILED (killed, no memory);
   * NFT_MISSING, HOST (not allowed)
   */
  apply(transaction: Transaction): Promise<AppliedTransaction>;
  /**
   * Checks whether the kernel would accept a transaction, and changes nothing. @throws as {@link Nft.apply}
   */
  check(transaction: Transaction): Promise<AppliedTransaction>;
  /**
   * Calls nft with arguments that change nothing.
   * @param signal ends the call
   * @returns its output; undefined if there is no such table, set or map
   * @throws AppError NFT_OUTPUT, NFT_TIMEOUT, NFT_FEATURE, NFT_FAILED, NFT_MISSING, HOST; NftStoppedError
   * after {@link Nft.stopReading}; the reason of the signal
   */
  list(args: readonly string[], signal?: AbortSignal): Promise<string | undefined>;
  /**
   * Kills running listings and checks and starts no more: they throw {@link NftStoppedError}. Transactions
   * run to their end and can still be applied.
   */
  stopReading(): void;
}

/** The cost of applying a transaction. */
export interface AppliedTransaction {
  /** Length of the JSON, in bytes. */
  readonly bytes: number;
  readonly durationMs: number;
}

/** Options of {@link nftProgram}. */
export interface NftOptions {
  /** Path or name of the program. */
  readonly path: string;
  /** A program with its arguments that starts nft in another context: `["unshare", "-n"]`. */
  readonly through?: readonly string[];
  readonly run?: RunProcess;
  readonly limits?: ProcessLimits;
  /** Called with the process id of each nft that will apply a transaction, before it gets it. */
  readonly onApply?: (pid: number) => void;
}

/** The arguments with which nft applies a transaction. */
export const APPLY: readonly string[] = ["-j", "-f", "-"];

/** Error of nft for a missing table, set, map or element. */
const NO_SUCH_OBJECT = /^Error: (?:Could not process rule: )?No such file or directory/;

/** Part of nft's error if the kernel refuses a transaction; absent if nft itself cannot read it. */
const BY_KERNEL = "Could not process rule";

/** Makes an {@link Nft} with the program, one process for each call. */
export function nftProgram(options: NftOptions): Nft {
  const { path, through = [], run = runProcess, limits: usual = NFT_LIMITS, onApply } = options;
  /**
   * Controllers that end the running listings and checks. A shared one would grow: in Node 20, sources of
   * AbortSignal.any keep a reference to every signal made from them.
   */
  const reads = new Set<AbortController>();
  let isReadingStopped = false;
  let commits = 0;
  /** False once this nft could read a transaction only in its full form. */
  let canNarrow = true;

  /** @throws the reason why it was killed, if it was; AppError, see {@link nftFailure} */
  const execute = async (
    args: readonly string[],
    input: string,
    limits: ProcessLimits,
  ): Promise<ProcessResult> => {
    const [program = path, ...rest] = [...through, path];
    const result = await run(program, [...rest, ...args], input, limits);
    if (result.aborted) limits.signal?.throwIfAborted();
    const failure = nftFailure(result, { program, command: [path, ...args].join(" "), limits });
    if (failure !== undefined) throw failure;
    return result;
  };

  const send = async (
    transaction: Transaction,
    args: readonly string[],
    most: ProcessLimits,
  ): Promise<AppliedTransaction> => {
    const { text, narrow } = transactionText(transaction);
    const limits = transactionLimits(transaction, text, most);
    const sendText = (input: string) =>
      execute(args, input, limits).catch((error: unknown) => {
        throw ofTransaction(error);
      });
    const isNarrow = canNarrow && narrow !== undefined;
    let result = await sendText(isNarrow ? narrow : text);
    if (isNarrow && result.exitCode !== 0 && !result.stderr.includes(BY_KERNEL)) {
      result = await sendText(text);
      canNarrow = result.exitCode !== 0;
    }
    if (result.exitCode !== 0)
      throw new NftRefusedError(transaction, result.stderr || "exit without a message");
    return { bytes: text.length, durationMs: result.durationMs };
  };

  /**
   * Makes a call that changes nothing.
   * @throws NftStoppedError after {@link Nft.stopReading}; the reason of `own`
   */
  const reading = async <Result>(
    own: AbortSignal | undefined,
    call: (limits: ProcessLimits) => Promise<Result>,
  ): Promise<Result> => {
    if (isReadingStopped) throw new NftStoppedError();
    own?.throwIfAborted();
    const read = new AbortController();
    reads.add(read);
    return await call({ ...usual, signal: firstOf(read.signal, own) }).finally(() => reads.delete(read));
  };

  return {
    path,
    get commits(): number {
      return commits;
    },
    async apply(transaction) {
      const limits = onApply === undefined ? usual : { ...usual, onStart: onApply };
      const applied = await send(transaction, APPLY, limits);
      commits++;
      return applied;
    },
    check: (transaction) =>
      reading(undefined, (limits) => send(transaction, ["-j", "-c", "-f", "-"], limits)),
    async list(args, signal) {
      const result = await reading(signal, (limits) => execute(args, "", limits));
      if (result.exitCode === 0) return result.stdout;
      if (NO_SUCH_OBJECT.test(result.stderr)) return undefined;
      throw new AppError("NFT_OUTPUT", `nft ${args.join(" ")} failed: ${firstLine(result.stderr)}`, {
        evidence: { stderr: result.stderr.trim() },
      });
    },
    stopReading() {
      isReadingStopped = true;
      for (const read of reads) read.abort(new NftStoppedError());
    },
  };
}
