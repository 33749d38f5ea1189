import type { Clock, Timer } from "../base/clock.ts";
import { messageOf } from "../base/errors.ts";
import type { Logger } from "../base/logger.ts";
import { hostFiles } from "../kernel/host.ts";
import type { Nft } from "../kernel/nft.ts";
import { type FollowedProgram, type FollowLines, followLines } from "../kernel/stream-lines.ts";
import { untilListening } from "../kernel/trace-tables.ts";
import type { QuietTime } from "./quiet-time.ts";

/** Parts of a {@link KernelWatch}. */
export interface KernelWatchParts {
  readonly nft: Pick<Nft, "path" | "commits" | "isApplying">;
  readonly quiet: Pick<QuietTime, "begin">;
  readonly clock: Clock;
  readonly logger: Logger;
  /** How many elements our tables have. */
  readonly elements: () => number;
  /** Told of each change of our tables that was not ours. */
  readonly onForeign: (change: ForeignChange) => void;
  /** Changes may have been missed until now: our tables are to be compared. */
  readonly onBegun: () => void;
  readonly follow?: FollowLines;
  /** Resolves when a process listens to the kernel, or has ended. */
  readonly isListening?: (pid: number) => Promise<void>;
}

/** A commit that changed our tables. */
export interface Commit {
  /** What it changed in them, in the lines of `nft monitor`. */
  readonly lines: readonly string[];
  /** Who made it, as `nft (process 4711)`. */
  readonly author: string;
}

/** A change of our tables by somebody else. */
export interface ForeignChange {
  /** Those of our tables that it deleted, as `ip nft-proxy`. */
  readonly deletedTables: readonly string[];
  /** Who made it, as `nft (process 4711)`: ours may have come after it. */
  readonly author: string;
}

/** nft monitor keeps every element in memory, some 1.3 kB each (1.1.3): 10,000 Services of 10 endpoints take it 140 to 167 MB. */
const MOST_ELEMENTS = 150_000;

/**
 * It keeps those that were deleted meanwhile, too: some 6 bytes for each character that it printed (1.1.3). After so many
 * it is replaced by another.
 */
const MOST_PRINTED = 8_000_000;

/** How soon a monitor is started again after one that listened, milliseconds: what it did not bear comes to an end before. */
const SHORTEST_PAUSE = 1000;

/** From one start to the next, in times what the first one took, for syncs wait for it; {@link RETRY} at most. */
const PERIOD_IN_STARTS = 20;

/** How soon one is started again that ended by itself or did not come to listen, milliseconds, doubled for each in a row of these. */
const RETRY = 30_000;
const MAX_RETRY = 1_800_000;

/**
 * How long a monitor may take to list everything, milliseconds: beside 5,000 sets of other software it takes 1 s, and begins
 * anew with each change of theirs.
 */
const MOST_STARTING = 10_000;

/** How soon the changes are counted again that came while a transaction of ours was under way, milliseconds. */
const RECOUNT = 20;

/**
 * For how long commits are kept, milliseconds, and how many lines of them: ours come to be known as such only when their
 * process has ended, and meanwhile it is not known which is the foreign one.
 */
const COMMIT_AGE = 3000;
const MOST_LINES = 3000;

/**
 * nft 1.1.3 prints nothing any more of what happens to a set once it has printed a new rule that uses it. Then the monitor
 * is replaced, this soon, milliseconds: after what came with the rule was looked into.
 */
const NEW_RULE = /^(?:add|insert|replace) rule /;
const REPLACED_AFTER = 1000;

/** How often, milliseconds, and how many times it is looked whether all of our transactions have been told of. */
const SETTLING = 50;
const MOST_SETTLING = 20;

const OURS = /^(add|insert|replace|delete|destroy|flush) (\w+) (ip6? nft-proxy)(?: |$)/;
const GENERATION = /^# new generation \d+ by process (\d+) \((.*)\)$/;
const LOSS = "# ERROR: We lost some netlink events";

/**
 * Listens by `nft monitor` to what is committed, whoever does it. Of our tables, each transaction of ours makes one
 * generation: when there are more, somebody else changed them. While the monitor lists everything at its begin, it gets
 * a time without changes; while we make tables anew, it rests. Where it ends or loses messages, changes may be missed
 * until it has been started again: others look at the kernel themselves meanwhile.
 */
export class KernelWatch {
  readonly #parts: KernelWatchParts;
  #program: FollowedProgram | undefined;
  /** When everything since is known, milliseconds since 1970; undefined while it is not. */
  #since: number | undefined;
  /** Our transactions when all commits were accounted for. */
  #base = 0;
  /** The commits that changed our tables since then. */
  #observed = 0;
  /** The characters that the monitor has printed. */
  #printed = 0;
  /** The lines of the commit that is being printed that are about our tables. */
  #lines: string[] = [];
  /** Those of our tables that it deletes. */
  #deletedTables: string[] = [];
  #commits = new RecentCommits();
  /** When somebody else last changed our tables, milliseconds since 1970. */
  #foreignAt = Number.NEGATIVE_INFINITY;
  /** The last commit that changed our tables. */
  #last: ForeignChange | undefined;
  /** The last start that came to listen: its begin on the monotonic clock, and how long it took, milliseconds. */
  #start = { at: 0, took: 0 };
  /** Starts in a row that did not come to listen. */
  #failures = 0;
  #timer: Timer | undefined;
  #recount: Timer | undefined;
  #stopped = false;

  constructor(parts: KernelWatchParts) {
    this.#parts = parts;
  }

  /** Whether it tells of every change from now on. */
  get isTrusted(): boolean {
    return this.#since !== undefined;
  }

  /** Whether nobody else changed our tables since a moment, milliseconds since 1970; within a second. */
  async isIntactSince(at: number): Promise<boolean> {
    const { nft, clock } = this.#parts;
    for (let tries = 0; tries < MOST_SETTLING; tries++) {
      if (this.#since === undefined || this.#since > at || this.#foreignAt >= at) return false;
      if (!nft.isApplying && this.#observed === nft.commits - this.#base) return true;
      await new Promise<void>((resolve) => clock.after(SETTLING, resolve));
    }
    // One of ours changed nothing.
    this.#balance();
    return false;
  }

  /** The commits that changed our tables in the last seconds, ours, too; undefined when they are not all known. */
  get recentCommits(): readonly Commit[] | undefined {
    return this.#since === undefined ? undefined : this.#commits.since(this.#parts.clock.monotonic() - COMMIT_AGE);
  }

  /** Begins to listen, as soon as syncs allow it. To be called when our tables are there. */
  start(): void {
    void this.#begin();
  }

  /** Stops listening. */
  stop(): void {
    this.#stopped = true;
    this.#rest(undefined);
  }

  async #begin(): Promise<void> {
    const { nft, quiet, clock, elements, onBegun, follow = followLines, isListening = listening } = this.#parts;
    if (this.#stopped) return;
    if (elements() > MOST_ELEMENTS) {
      this.#rest(RETRY);
      return;
    }
    const time = await quiet.begin();
    if (this.#stopped) {
      time.end();
      return;
    }
    const at = clock.monotonic();
    const program = follow(nft.path, ["monitor"], (line) => this.#read(line));
    this.#program = program;
    const ended = program.ended.catch((error: unknown) => this.#ended(program, error));
    let isLate = false;
    const isOver = new Promise<void>((resolve) => {
      time.signal.addEventListener("abort", () => resolve(), { once: true });
      this.#timer = clock.after(MOST_STARTING, () => {
        isLate = true;
        resolve();
      });
    });
    await Promise.race([isListening(program.pid ?? 0), isOver, ended]);
    const isReady = !isLate && !time.signal.aborted && this.#program === program;
    time.end();
    if (!isReady) {
      this.#rest(Math.min(MAX_RETRY, RETRY * 2 ** this.#failures++));
      return;
    }
    this.#timer?.cancel();
    this.#failures = 0;
    this.#start = { at, took: clock.monotonic() - at };
    this.#printed = 0;
    this.#balance();
    this.#commits = new RecentCommits();
    this.#since = clock.now();
    onBegun();
  }

  /** Everything that was committed is accounted for. */
  #balance(): void {
    this.#base = this.#parts.nft.commits;
    this.#observed = 0;
  }

  #ended(program: FollowedProgram, error: unknown): void {
    if (this.#program !== program) return;
    this.#parts.logger.debug({ error: messageOf(error) }, "nft monitor ended, starting it again");
    this.#rest(RETRY);
  }

  /** @param ms after which it begins again; undefined for never */
  #rest(ms: number | undefined): void {
    this.#since = undefined;
    const program = this.#program;
    this.#program = undefined;
    program?.stop();
    this.#timer?.cancel();
    this.#recount?.cancel();
    if (ms !== undefined && !this.#stopped) this.#timer = this.#parts.clock.after(ms, () => void this.#begin());
  }

  #read(line: string): void {
    if (this.#since === undefined) return;
    this.#printed += line.length;
    if (line.startsWith(LOSS) || this.#printed > MOST_PRINTED) {
      this.#rest(this.#pause());
      return;
    }
    const [, verb, kind, table] = OURS.exec(line) ?? [];
    if (table !== undefined) {
      if (this.#lines.length <= MOST_LINES) this.#lines.push(line);
      if (verb === "delete" && kind === "table") this.#deletedTables.push(table);
    }
    const [, pid, name = ""] = GENERATION.exec(line) ?? [];
    if (pid === undefined) return;
    const [lines, deletedTables] = [this.#lines, this.#deletedTables];
    this.#lines = [];
    this.#deletedTables = [];
    if (lines.length === 0) return;
    this.#observed++;
    const author = `${name} (process ${pid})`;
    this.#last = { author, deletedTables };
    this.#commits.add({ lines, author }, this.#parts.clock.monotonic());
    this.#count();
    if (lines.some((one) => NEW_RULE.test(one))) this.#replaceSoon();
  }

  #replaceSoon(): void {
    if (this.#since === undefined) return;
    this.#timer?.cancel();
    this.#timer = this.#parts.clock.after(REPLACED_AFTER, () => this.#rest(this.#pause()));
  }

  /** nft prints our own commit before the process that made it has ended. */
  #count(): void {
    const { nft, clock, onForeign } = this.#parts;
    this.#recount?.cancel();
    if (nft.isApplying) {
      this.#recount = clock.after(RECOUNT, () => this.#count());
      return;
    }
    if (this.#since === undefined || this.#last === undefined || this.#observed <= nft.commits - this.#base) return;
    this.#balance();
    this.#foreignAt = clock.now();
    onForeign(this.#last);
    if (this.#last.deletedTables.length > 0) this.#rest(this.#pause());
  }

  #pause(): number {
    const { at, took } = this.#start;
    return Math.max(SHORTEST_PAUSE, at + Math.min(RETRY, PERIOD_IN_STARTS * took) - this.#parts.clock.monotonic());
  }
}

function listening(pid: number): Promise<void> {
  return untilListening(hostFiles, pid);
}

/** The commits of the last seconds that changed our tables. */
class RecentCommits {
  #commits: (Commit & { readonly at: number })[] = [];
  #lines = 0;
  /** When the last commit was forgotten because there were too many lines, on the monotonic clock. */
  #forgottenAt = Number.NEGATIVE_INFINITY;

  /** Adds a commit. @param at on the monotonic clock */
  add(commit: Commit, at: number): void {
    this.#commits.push({ ...commit, at });
    this.#lines += commit.lines.length;
    for (let oldest = this.#commits[0]; oldest !== undefined; oldest = this.#commits[0]) {
      const isTooMuch = this.#lines > MOST_LINES;
      if (!isTooMuch && oldest.at > at - COMMIT_AGE) break;
      if (isTooMuch) this.#forgottenAt = oldest.at;
      this.#lines -= oldest.lines.length;
      this.#commits.shift();
    }
  }

  /** All commits since a moment on the monotonic clock; undefined when some were forgotten. */
  since(at: number): readonly Commit[] | undefined {
    return this.#forgottenAt >= at ? undefined : this.#commits.filter((commit) => commit.at >= at);
  }
}
