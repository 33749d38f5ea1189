import type { Clock } from "../base/clock.ts";
import { AppError } from "../base/errors.ts";
import type { Family } from "../base/family.ts";
import type { Logger } from "../base/logger.ts";
import { firstOf } from "../base/signals.ts";
import type { TableName } from "../nft/ast/any-table.ts";
import type { Command, Transaction } from "../nft/ast/json.ts";
import { TABLE_NAME } from "../nft/ast/ruleset.ts";
import { readListing } from "../nft/canonical/parse.ts";
import { validateTransaction } from "../nft/validate.ts";
import { firstLine, NftRefusedError, NftStoppedError, nftFailure, ofTransaction } from "./nft-errors.ts";
import { withMemoryLimit } from "./nft-memory.ts";
import {
  type ProcessLimits,
  type ProcessResult,
  type ProgramEnd,
  type RunProcess,
  runProcess,
} from "./process.ts";
import { SpareProcess } from "./spare-process.ts";
import { ProgramError, type StreamText, streamText } from "./stream-lines.ts";

/** How to reach nft. */
export interface NftOptions {
  /** Path or name of the program. */
  readonly path: string;
  /** A program, with its arguments, that starts nft in other context: `["unshare", "-n"]`. */
  readonly through?: readonly string[];
  readonly run?: RunProcess;
  readonly stream?: StreamText;
  readonly limits?: ProcessLimits;
  /** What nft may take for a large transaction or listing, see {@link nftMemoryLimit}; not limited when absent. */
  readonly memoryBytes?: number | undefined;
  /** Keeps a process ready for {@link Nft.apply}, replaced by this clock; {@link Nft.close} ends it. */
  readonly spare?: Clock;
}

/** How one of our sets is listed. */
export interface SetListingOptions {
  /** Another table than our own. */
  readonly table?: string;
  /** Ends the listing. */
  readonly signal?: AbortSignal | undefined;
}

/** The cost of applying a transaction. */
export interface AppliedTransaction {
  /** Length of the JSON, in bytes. */
  readonly bytes: number;
  readonly durationMs: number;
}

/** A listing of 1,000,000 elements takes a minute and 200 MB; whatever takes more hangs or is not ours. */
const LIMITS: ProcessLimits = { timeoutMs: 120_000, maxOutputBytes: 500_000_000 };

/**
 * The limits of a process whose memory is limited: what it reads as a whole takes ten times as much once it is parsed. Our
 * own maps are read in pieces; what is read as a whole has some kilobytes, unless others put something into our tables.
 */
export const DAEMON_LIMITS: ProcessLimits = { ...LIMITS, maxOutputBytes: 30_000_000 };

/**
 * A transaction of so many characters of JSON is large: nft 1.1.3 takes some 30 bytes for each. Smaller ones go to the
 * process that waits for them, which is not limited: limiting costs the start of one more program.
 */
const LARGE_INPUT = 1_000_000;

/** What a transaction may take, for each begun megabyte: 20 times what nft needs on a machine with other work. Milliseconds. */
const TIMEOUT_PER_MEGABYTE = 10_000;

/** How many process ids are kept: those of some seconds at the highest rate, 20 transactions a second. */
const OWN_PIDS = 256;

const APPLY: readonly string[] = ["-j", "-f", "-"];

/** What nft says of a table, set, map or element that is not there. */
const NO_SUCH_OBJECT = /^Error: (?:Could not process rule: )?No such file or directory/;

/** What nft says of a transaction that the kernel refuses; one that nft itself cannot read fails with other words. */
const BY_KERNEL = "Could not process rule";

/** The only way to the kernel's tables. Knows how nft is called, not what is in a transaction. */
export class Nft {
  readonly path: string;
  readonly #through: readonly string[];
  readonly #run: RunProcess;
  readonly #stream: StreamText;
  readonly #limits: ProcessLimits;
  readonly #memoryBytes: number | undefined;
  /**
   * Of each listing and check under way what ends it. One for all of them would keep a trace of each as long as it lives: of
   * the signals that AbortSignal.any makes, Node 20 never lets their sources forget.
   */
  readonly #reads = new Set<AbortController>();
  #isReadingStopped = false;
  readonly #spare: SpareProcess | undefined;
  #commits = 0;
  #applying = 0;
  readonly #ownPids = new Set<number>();
  /** False once this nft could not read a transaction for the listing at its end alone. */
  #canNarrow = true;

  constructor({
    path,
    through = [],
    run = runProcess,
    stream = streamText,
    limits = LIMITS,
    ...options
  }: NftOptions) {
    const { spare, memoryBytes } = options;
    this.path = path;
    this.#through = through;
    this.#stream = stream;
    this.#limits = limits;
    this.#memoryBytes = memoryBytes;
    this.#spare = spare && new SpareProcess({ path, args: APPLY, limits, clock: spare });
    this.#run = this.#spare?.run ?? run;
  }

  /**
   * Kills the listings and checks that are under way, and begins no others: they throw {@link NftStoppedError}.
   * Transactions are finished, and can still be applied.
   */
  stopReading(): void {
    this.#isReadingStopped = true;
    for (const read of this.#reads) read.abort(new NftStoppedError());
  }

  /** How many transactions were applied. */
  get commits(): number {
    return this.#commits;
  }

  /** Whether a transaction is under way. */
  get isApplying(): boolean {
    return this.#applying > 0;
  }

  /**
   * Whether a commit is one of ours, by the port id of its socket. The kernel names it in what it tells about the commit: the
   * port id of nft's netlink socket is nft's process id in its own namespace of them, unless another socket has that already.
   * The ids of the last 256 nft processes that were given a transaction are known, each from before it can commit, and also
   * those of processes that were killed. Each is claimed once, as a process commits once at most: another process may have
   * the number next, or has it in another namespace of process ids.
   */
  claimCommit(portId: number): boolean {
    return this.#ownPids.delete(portId);
  }

  /** Ends what waits for later calls; nothing is to be called after this. */
  close(): void {
    this.#spare?.stop();
  }

  /**
   * Applies a transaction: all of it or nothing.
   * @throws AppError INVALID_TRANSACTION before anything is sent; {@link NftRefusedError}; {@link TransactionFailedError}
   * with NFT_TIMEOUT, NFT_FEATURE (a crash) or NFT_FAILED (killed, no memory); NFT_MISSING, HOST (not allowed)
   */
  async apply(transaction: Transaction): Promise<AppliedTransaction> {
    this.#applying++;
    try {
      const onStart = (pid: number) => this.#addOwnPid(pid);
      const applied = await this.#send(transaction, APPLY, { ...this.#limits, onStart });
      this.#commits++;
      return applied;
    } finally {
      this.#applying--;
    }
  }

  /**
   * Asks the kernel whether it would take a transaction, and changes nothing.
   * @throws as {@link Nft.apply}
   */
  async check(transaction: Transaction): Promise<AppliedTransaction> {
    return await this.#read((limits) => this.#send(transaction, ["-j", "-c", "-f", "-"], limits));
  }

  /**
   * Lists our table of one family without elements. Never the whole ruleset: other software's tables may hold
   * what this nft cannot print.
   * @param signal ends the listing
   * @returns nft's JSON text, undefined when there is no such table
   */
  async listTable(family: Family, signal?: AbortSignal): Promise<string | undefined> {
    return await this.#list(["-t", "list", "table", family, TABLE_NAME], signal);
  }

  /**
   * Lists a table of any software with its elements, and never more than this one.
   * @param as "text" is nft's own language, each rule with its handle
   * @param signal ends the listing
   * @returns undefined when there is no such table
   */
  async listTableOf(
    { family, name }: TableName,
    as: "json" | "text",
    signal?: AbortSignal,
  ): Promise<string | undefined> {
    return await this.#ask([as === "json" ? "-j" : "-a", "list", "table", family, name], signal);
  }

  /** Lists one of our sets or maps with its elements; undefined when it is not there. */
  async listSet(
    family: Family,
    kind: "set" | "map",
    name: string,
    { table = TABLE_NAME, signal }: SetListingOptions = {},
  ): Promise<string | undefined> {
    return await this.#list(["list", kind, family, table, name], signal);
  }

  /**
   * As {@link Nft.listSet}, in pieces while nft prints it: a long listing is never in memory as a whole. Yields nothing
   * when the set is not there.
   * @throws AppError from the iteration, as other listings do; the reason of `signal`
   */
  async *streamSet(
    family: Family,
    kind: "set" | "map",
    name: string,
    { signal }: Pick<SetListingOptions, "signal"> = {},
  ): AsyncGenerator<string, void, undefined> {
    const listing = ["-j", "list", kind, family, TABLE_NAME, name];
    const [program, args] = this.#largeCommandLine(listing);
    const { limits, end } = this.#beginReading(signal);
    try {
      yield* this.#stream(program, args, limits);
    } catch (error) {
      if (!(error instanceof ProgramError)) throw error;
      this.#assertWorked(listing, error.end, limits);
      if (!isMissing(error.end)) throw failedListing(listing, error.end);
    } finally {
      end();
    }
  }

  /** The tables of this network namespace, everyone's, by name alone: `ip nft-proxy`. */
  async tableNames(): Promise<Set<string>> {
    const text = (await this.#list(["list", "tables"])) ?? "";
    return new Set(readListing(text).objects.flatMap(tableName));
  }

  /**
   * Lists the chains of this network namespace, everyone's, without rules: nothing that others put into a table can
   * keep nft from printing them (1.0.6 survives this beside maps on which its listing of tables crashes).
   * @returns nft's JSON text
   */
  async listChains(): Promise<string> {
    return (await this.#list(["list", "chains"])) ?? "";
  }

  /** Lists the flow tables of this network namespace with their devices, everyone's. @returns nft's JSON text */
  async listFlowtables(): Promise<string> {
    return (await this.#list(["list", "flowtables"])) ?? '{"nftables": []}';
  }

  /**
   * How long nft takes to read the sets of a table of anybody's, named or not, without their elements.
   * @param table family and name: `ip kube-proxy`
   * @returns milliseconds from the start to the end of nft; 0 when there is no such table
   */
  async setsReadingTime(table: string): Promise<number> {
    const [family, name] = table.split(" ");
    // A listing of maps asks for all sets, and the last command limits it to the table: see `narrowed`.
    const nftables = [{ list: { maps: { family } } }, { list: { counters: { family, table: name } } }];
    const input = JSON.stringify({ nftables });
    const result = await this.#read((limits) => this.#execute(["-t", "-j", "-f", "-"], input, limits));
    return result.exitCode === 0 ? result.durationMs : 0;
  }

  /** nft's own version line, such as `nftables v1.1.3 (Commodore Bullmoose #4)`. */
  async version(): Promise<string> {
    return (await this.#read((limits) => this.#execute(["--version"], "", limits))).stdout.trim();
  }

  async #list(args: readonly string[], signal?: AbortSignal): Promise<string | undefined> {
    return await this.#ask(["-j", ...args], signal);
  }

  async #ask(args: readonly string[], signal?: AbortSignal): Promise<string | undefined> {
    const result = await this.#read((limits) => this.#execute(args, "", limits), signal);
    if (result.exitCode === 0) return result.stdout;
    if (isMissing(result)) return undefined;
    throw failedListing(args, result);
  }

  async #send(
    transaction: Transaction,
    args: readonly string[],
    most: ProcessLimits,
  ): Promise<AppliedTransaction> {
    const input = written(transaction);
    const limits = { ...most, timeoutMs: Math.min(most.timeoutMs, timeoutOf(input)) };
    const send = (text: string) =>
      this.#execute(args, text, limits).catch((error: unknown) => {
        throw ofTransaction(error);
      });
    const narrow = this.#canNarrow ? narrowed(transaction, input) : undefined;
    let result = await send(narrow ?? input);
    if (narrow !== undefined && result.exitCode !== 0 && !result.stderr.includes(BY_KERNEL)) {
      result = await send(input);
      this.#canNarrow = result.exitCode !== 0;
    }
    if (result.exitCode !== 0)
      throw new NftRefusedError(transaction, result.stderr || "exit without a message");
    return { bytes: input.length, durationMs: result.durationMs };
  }

  #addOwnPid(pid: number): void {
    // Its number may have been another's before.
    this.#ownPids.delete(pid);
    this.#ownPids.add(pid);
    const [oldest] = this.#ownPids;
    if (this.#ownPids.size > OWN_PIDS && oldest !== undefined) this.#ownPids.delete(oldest);
  }

  /** The program that starts nft, and all of its arguments. */
  #commandLine(args: readonly string[]): readonly [program: string, args: readonly string[]] {
    const [program = this.path, ...rest] = [...this.#through, this.path];
    return [program, [...rest, ...args]];
  }

  /** As {@link Nft.#commandLine}, for what may take much memory. */
  #largeCommandLine(args: readonly string[]): readonly [program: string, args: readonly string[]] {
    const [program, all] = this.#commandLine(args);
    return this.#memoryBytes === undefined
      ? [program, all]
      : withMemoryLimit(this.#memoryBytes, program, all);
  }

  /** Does what changes nothing. @throws as {@link Nft.#beginReading}, or as `work` does */
  async #read<T>(work: (limits: ProcessLimits) => Promise<T>, own?: AbortSignal): Promise<T> {
    const { limits, end } = this.#beginReading(own);
    return await work(limits).finally(end);
  }

  /**
   * The limits of what changes nothing, and what is to be called at its end.
   * @throws NftStoppedError after {@link Nft.stopReading}; the reason of `own`
   */
  #beginReading(own: AbortSignal | undefined): { readonly limits: ProcessLimits; readonly end: () => void } {
    if (this.#isReadingStopped) throw new NftStoppedError();
    own?.throwIfAborted();
    const read = new AbortController();
    this.#reads.add(read);
    return {
      limits: { ...this.#limits, signal: firstOf(read.signal, own) },
      end: () => this.#reads.delete(read),
    };
  }

  async #execute(args: readonly string[], input: string, limits: ProcessLimits): Promise<ProcessResult> {
    const isLarge = input.length > LARGE_INPUT;
    const [program, all] = isLarge ? this.#largeCommandLine(args) : this.#commandLine(args);
    const result = await this.#run(program, all, input, limits);
    this.#assertWorked(args, result, limits);
    return result;
  }

  /** @throws the reason for which it was killed, if it was; AppError, see {@link nftFailure} */
  #assertWorked(args: readonly string[], end: ProgramEnd, limits: ProcessLimits): void {
    const [program] = this.#commandLine(args);
    if (end.aborted) limits.signal?.throwIfAborted();
    const failure = nftFailure(end, { program, command: [this.path, ...args].join(" "), limits });
    if (failure !== undefined) throw failure;
  }
}

/** For how long nft may work on a transaction, milliseconds: the same for those of like size, so that failures over them are alike. */
function timeoutOf(input: string): number {
  return TIMEOUT_PER_MEGABYTE * (1 + Math.floor(input.length / 1_000_000));
}

/** A transaction as nft reads it. @throws AppError INVALID_TRANSACTION */
function written(transaction: Transaction): string {
  validateTransaction(transaction);
  return JSON.stringify(transaction);
}

/**
 * The transaction with a listing at its end of which there is nothing in our tables. nft reads the sets of every table
 * before a transaction with elements or rules (2 us for each, others' too), but only those of the table that the last
 * command lists, if it lists one (nft 1.1.3 and 1.1.7, `reset_filter` in its cache.c). See docs/decisions/others-sets.md.
 * @param input the transaction as it is written without
 * @returns undefined for a transaction that nft has to read more for: of two families, or one that makes or deletes a table
 */
function narrowed({ nftables }: Transaction, input: string): string | undefined {
  const families = new Set(nftables.map(familyInTable));
  const [family] = families;
  if (families.size !== 1 || family === undefined) return undefined;
  const listing = { list: { counters: { family, table: TABLE_NAME } } };
  return `${input.slice(0, -"]}".length)},${JSON.stringify(listing)}]}`;
}

/** The family of our table in which a command changes something; undefined for other tables, and for a table itself. */
function familyInTable(command: Command): Family | undefined {
  const [object = {}] = Object.values(command);
  const [changed] = Object.values(object) as { readonly family: Family; readonly table?: string }[];
  return changed?.table === TABLE_NAME ? changed.family : undefined;
}

function tableName(object: unknown): string[] {
  const { table } = object as { table?: { family: string; name: string } };
  return table === undefined ? [] : [`${table.family} ${table.name}`];
}

function isMissing({ stderr }: ProgramEnd): boolean {
  return NO_SUCH_OBJECT.test(stderr);
}

function failedListing(args: readonly string[], { stderr }: ProgramEnd): AppError {
  return new AppError("NFT_OUTPUT", `nft ${args.join(" ")} failed: ${firstLine(stderr)}`, {
    evidence: { stderr: stderr.trim() },
  });
}

/** Reads the kernel and changes nothing: what would be applied is logged. */
export class DryRunNft extends Nft {
  readonly #logger: Logger;

  constructor(path: string, logger: Logger) {
    super({ path });
    this.#logger = logger;
  }

  override async apply(transaction: Transaction): Promise<AppliedTransaction> {
    const text = JSON.stringify(transaction);
    this.#logger.info({ bytes: text.length, commands: transaction.nftables.length }, "dry run: would apply");
    this.#logger.debug({ transaction }, "dry run: the transaction");
    return { bytes: text.length, durationMs: 0 };
  }
}
