import { conntrackDefaults } from "../../src/base/conntrack-defaults.ts";
import type { Family } from "../../src/base/family.ts";
import { type Nft, nftProgram } from "../../src/kernel/nft.ts";
import { OwnCommits } from "../../src/kernel/own-commits.ts";
import type { ProcessResult, RunProcess } from "../../src/kernel/process.ts";
import { systemClock } from "../../src/kernel/system-clock.ts";
import type { Command, TimeoutJson, Transaction } from "../../src/nft/ast/json.ts";
import type { Ruleset } from "../../src/nft/ast/ruleset.ts";
import { rebuildTransaction } from "../../src/nft/transaction.ts";
import { FakeKernel } from "./fake-kernel.ts";
import { asListed } from "./listed-elements.ts";
import { nftTables } from "./nft-tables.ts";

/** The arguments of a run of nft. */
export type NftRun = "apply" | "check" | "list";

/** A fake nft with a {@link FakeKernel}, which answers as the program does for its arguments. */
export class FakeNft {
  readonly kernel = new FakeKernel();
  /** Every run so far. */
  readonly runs: NftRun[] = [];
  /** The transactions that were sent, even if they were refused. */
  readonly transactions: Transaction[] = [];
  /** Transactions that contain this text are refused, both when applied and when checked. */
  refuses: string | undefined;
  /** nft is killed during transactions for which this returns true, both when applied and when checked. */
  isKilledBy: (text: string) => boolean = () => false;
  /** nft hangs during a transaction that contains this text. */
  hangsOver: string | undefined;
  /** A chain cannot be deleted in a transaction that deletes elements, as with some kernels before 6.2. */
  isOld = false;
  /** The error of every run. */
  broken: string | undefined;
  /** Every run takes too long: it does nothing, or it does its work but ends too late. */
  timesOut: boolean | "at the end" = false;
  /** Called when a run starts. The run waits for the result. */
  before: (run: NftRun) => void | Promise<void> = () => {};
  /** The commits of this nft. */
  readonly ownCommits = new OwnCommits(systemClock);
  readonly nft: Nft = nftProgram({
    path: "nft",
    onApply: (pid) => this.ownCommits.started(pid),
    run: (...call) => this.#run(...call),
  });
  /** Our tables, read by this nft. */
  readonly tables = nftTables(this.nft);
  /** The process id of the last run. */
  #pid = FIRST_PID;

  /** Counts the runs of a kind. */
  count(run: NftRun): number {
    return this.runs.filter((one) => one === run).length;
  }

  #run: RunProcess = async (_path, args, input, { onStart }) => {
    this.#pid++;
    onStart?.(this.#pid);
    const kind = args.includes("-c") ? "check" : args.includes("-f") ? "apply" : "list";
    this.runs.push(kind);
    await this.before(kind);
    if (this.timesOut === true) return TIMED_OUT;
    if (this.broken !== undefined) return failed(this.broken);
    const result = kind === "list" ? this.#list(args) : this.#read(input, kind);
    return this.timesOut === "at the end" ? TIMED_OUT : result;
  };

  /** Reads JSON, which cannot delete timeouts, or nft's own language. */
  #read(input: string, kind: NftRun): ProcessResult {
    const isJson = input.startsWith("{");
    const transaction = isJson ? withoutListing(JSON.parse(input)) : deletionsIn(input);
    if (
      isJson &&
      transaction.nftables.some((command) => "delete" in command && "ct timeout" in command.delete)
    )
      return failed("internal:0:0-0: Error: Could not process rule: Invalid argument");
    return this.#send(transaction, kind);
  }

  #send(transaction: Transaction, kind: NftRun): ProcessResult {
    if (kind === "apply") this.transactions.push(transaction);
    if (this.hangsOver !== undefined && JSON.stringify(transaction).includes(this.hangsOver))
      return TIMED_OUT;
    if (this.isKilledBy(JSON.stringify(transaction)))
      return { ...PLAIN, exitCode: undefined, signal: "SIGKILL" };
    if (this.refuses !== undefined && JSON.stringify(transaction).includes(this.refuses)) {
      return failed("internal:0:0-0: Error: Could not process rule: Invalid argument");
    }
    if (this.isOld && deletesChainsAndElements(transaction)) {
      return failed("internal:0:0-0: Error: Could not process rule: Device or resource busy");
    }
    const before = this.kernel.ruleset;
    try {
      this.kernel.apply(transaction);
      return succeeded("");
    } catch (error) {
      return failed(`internal:0:0-0: Error: Could not process rule: ${String(error)}`);
    } finally {
      if (kind === "check") this.kernel.ruleset = before;
    }
  }

  #list(args: readonly string[]): ProcessResult {
    if (args.includes("tables"))
      return listing(
        Object.values(this.kernel.ruleset).map(({ family, name }) => ({ table: { family, name } })),
      );
    const family = args.find((arg) => arg === "ip" || arg === "ip6") as Family;
    const objects = listedObjects(this.kernel.ruleset, family);
    if (objects.length === 0) return failed("Error: No such file or directory");
    if (args.includes("table")) return listing(objects.map(({ elem, ...object }) => object));
    const found = objects.filter((object) => (object.map ?? object.set)?.name === args.at(-1));
    return found.length === 0
      ? failed("Error: No such file or directory")
      : listing(found.map(({ elem, ...object }) => withElements(object, elem)));
  }
}

const FIRST_PID = 7000;

/** Returns the commands of lines such as `delete ct timeout ip nft-proxy NAME`. */
function deletionsIn(text: string): Transaction {
  const nftables = text
    .trim()
    .split("\n")
    .map((line) => {
      const [, verb = "", kind = "", family, table, name] =
        /^(flush|delete) ([a-z ]+) (ip6?) (\S+) (\S+)$/.exec(line) ?? [];
      return { [verb]: { [kind]: { family, table, name } } } as unknown as Command;
    });
  return { nftables };
}

function deletesChainsAndElements({ nftables }: Transaction): boolean {
  const deleted = nftables.flatMap((command) => ("delete" in command ? Object.keys(command.delete) : []));
  return deleted.includes("chain") && deleted.includes("element");
}

interface Listed {
  readonly map?: { readonly name: string };
  readonly set?: { readonly name: string; readonly timeout?: number };
  readonly elem?: unknown;
}

/** nft's listing contains the objects of the commands that would create the table. */
function listedObjects(ruleset: Ruleset, family: Family): Listed[] {
  const table = ruleset[family];
  if (table === undefined) return [];
  const added = rebuildTransaction({ [family]: table }).nftables.flatMap((command) =>
    "add" in command ? [command.add] : [],
  );
  const elements = new Map(
    added.flatMap((object) => ("element" in object ? [[object.element.name, object.element.elem]] : [])),
  );
  return added
    .filter((object) => !("element" in object))
    .map((object) =>
      "table" in object && table.isDormant ? { table: { ...object.table, flags: "dormant" } } : object,
    )
    .map((object) => ("map" in object ? { map: asListed(object.map) } : object))
    .map((object) => ("ct timeout" in object ? withoutDefaults(object["ct timeout"]) : object))
    .map((object) => ({ ...object, elem: elements.get(nameOf(object)) }));
}

function withoutDefaults({ policy = {}, ...rest }: TimeoutJson): object {
  const defaults = conntrackDefaults(rest.protocol ?? "");
  const listed = Object.entries(policy).filter(([state, seconds]) => seconds !== defaults[state]);
  return { "ct timeout": { ...rest, policy: listed.length === 0 ? null : Object.fromEntries(listed) } };
}

function nameOf(object: object): string {
  return (Object.values(object)[0] as { name: string }).name;
}

/** Elements with a timeout have all their time left. */
function withElements(object: Listed, elem: unknown): object {
  const { timeout } = object.set ?? {};
  if (timeout !== undefined && Array.isArray(elem)) {
    return {
      set: { ...object.set, elem: elem.map((val: unknown) => ({ elem: { val, expires: timeout } })) },
    };
  }
  const listed = Array.isArray(elem) ? elem.map(withCounts) : elem;
  return object.map === undefined
    ? { set: { ...object.set, elem: listed } }
    : { map: { ...object.map, elem: listed } };
}

/** Elements are added with an empty counter, and listed with its counts. */
function withCounts(element: { readonly elem?: { readonly counter?: unknown } }): object {
  return element.elem?.counter === null
    ? { elem: { ...element.elem, counter: { packets: 0, bytes: 0 } } }
    : element;
}

function listing(objects: readonly object[]): ProcessResult {
  return succeeded(JSON.stringify({ nftables: objects }));
}

function succeeded(stdout: string): ProcessResult {
  return { ...PLAIN, exitCode: 0, stdout };
}

function failed(stderr: string): ProcessResult {
  return { ...PLAIN, exitCode: 1, stderr };
}

const PLAIN = {
  signal: undefined,
  stdout: "",
  stderr: "",
  startError: undefined,
  timedOut: false,
  tooMuchOutput: false,
  aborted: false,
  durationMs: 1,
} as const;

const TIMED_OUT: ProcessResult = { ...PLAIN, exitCode: undefined, timedOut: true };

/** Removes the listing at the end, which keeps nft from reading other software's sets and lists nothing. */
export function withoutListing({ nftables }: Transaction): Transaction {
  return { nftables: nftables.filter((command) => !("list" in command)) };
}
