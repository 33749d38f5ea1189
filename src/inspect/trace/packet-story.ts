import type { Clock } from "../../base/clock.ts";
import type { Hook } from "../../trace/outcome.ts";
import type { TracedPacket, TraceLine, TracePlace } from "./trace-line.ts";

/** A rule that a packet matched. */
export interface TracedRule {
  /** Differs from its stage's after a jump. */
  readonly chain: string;
  /** As nft prints it. */
  readonly rule: string;
  /** `continue`, `accept`, `drop`, `jump X`, `goto X`, `return`. */
  readonly verdict: string;
}

/** A packet's way through one base chain. */
export interface TraceStage extends TracePlace {
  /** The headers when it came in, as far as nft showed them. */
  readonly packet: TracedPacket | undefined;
  readonly rules: readonly TracedRule[];
  /** The policy that decided, "" when a rule did. */
  readonly policy: string;
}

/** How a packet's way through the chains ended. */
export type TraceEnd =
  /** It passed the chains of its last hook, input or postrouting. */
  | { readonly kind: "passed" }
  /** The kernel stopped it outside nftables: after it had passed a hook, or in its first hook where `after` is absent. */
  | { readonly kind: "stopped"; readonly after?: StoppingHook }
  /** Messages of the kernel on it were lost or came too late, or a rule gave it to a program (`queue`). */
  | { readonly kind: "unknown" }
  /** `rule` is "" when the chain's policy decided. */
  | ({ readonly kind: "dropped" | "rejected"; readonly rule: string } & TracePlace);

/** The hooks after which the kernel may stop a packet. */
export type StoppingHook = "prerouting" | "forward" | "output";

/** One packet's way through the chains of all tables. */
export interface PacketStory {
  readonly id: string;
  /** Wall clock of its first line, milliseconds since 1970. */
  readonly startedAt: number;
  /** Counts the stories of a trace, in the order in which they began. */
  readonly sequence: number;
  readonly packet: TracedPacket;
  /** Its headers after the last hook that it passed, which may be translated; absent where it passed none. */
  readonly last?: TracedPacket;
  readonly stages: readonly TraceStage[];
  readonly end: TraceEnd;
}

/** Adds a line to the ways through base chains that a packet has had so far. */
function addToStages(stages: TraceStage[], line: TraceLine): void {
  const { family, table, chain } = line;
  const last = stages.at(-1);
  switch (line.kind) {
    case "packet":
      stages.push({ family, table, chain, packet: line.packet, rules: [], policy: "" });
      return;
    case "rule": {
      const { rule, verdict } = line;
      const stage = last?.table === table && last.family === family ? last : undefined;
      const rules = [...(stage?.rules ?? []), { chain, rule, verdict }];
      if (stage === undefined) stages.push({ family, table, chain, packet: undefined, rules, policy: "" });
      else stages[stages.length - 1] = { ...stage, rules };
      return;
    }
    case "policy":
      if (last?.table === table && last.family === family && last.chain === chain) {
        stages[stages.length - 1] = { ...last, policy: line.verdict };
      } else stages.push({ family, table, chain, packet: undefined, rules: [], policy: line.verdict });
      return;
    case "other":
      return;
  }
}

const REJECT = /(?:^| )reject(?: |$)/;

/** How the line ends the packet; undefined when it goes on. */
function endOf(line: TraceLine): TraceEnd | undefined {
  if ((line.kind !== "rule" && line.kind !== "policy") || line.verdict !== "drop") return undefined;
  const { family, table, chain } = line;
  const rule = line.kind === "rule" ? line.rule : "";
  return { kind: REJECT.test(rule) ? "rejected" : "dropped", family, table, chain, rule };
}

/** Whether all chains that a packet met accepted it: what is missing then is at the end of its way, or nothing. */
function isAccepted(stages: readonly TraceStage[]): boolean {
  const last = stages.at(-1);
  return last === undefined || last.policy === "accept" || last.rules.at(-1)?.verdict === "accept";
}

interface OpenStory {
  readonly id: string;
  readonly startedAt: number;
  readonly sequence: number;
  readonly packet: TracedPacket;
  readonly stages: TraceStage[];
  /** The last hook that it passed, and its headers then. */
  passed?: { readonly hook: Hook; readonly packet: TracedPacket };
  /** By the monotonic clock. */
  lastLineAt: number;
  /** Whether messages of the kernel were lost that may have been about it. */
  mayLack: boolean;
}

/** The most stories that are gathered at a time; the oldest is told as it is. */
const MOST_OPEN = 1000;

/** After a pause of so many milliseconds, all that the kernel had to tell has been read. */
const LULL_MS = 200;

/**
 * Puts the lines of several packets' traces, which come mixed, together. A story begins where the given table sets the
 * trace, or where a packet of a story comes back over loopback, which gives it another id; it ends with a drop, when its
 * id is used again, or after a time without a line. Packets that other programs trace pass the given table as well.
 */
export class StoryCollector {
  readonly #table: string;
  readonly #settingChain: string;
  readonly #hookEnds: ReadonlyMap<string, Hook>;
  readonly #clock: Pick<Clock, "now" | "monotonic">;
  readonly #open = new Map<string, OpenStory>();
  /** The headers of packets in the own table, by id, until it is known whether their trace is ours. */
  readonly #arrived = new Map<string, TracedPacket>();
  #sequence = 0;
  #lastLineAt = Number.NEGATIVE_INFINITY;
  #hasLost = false;
  #hasEnded = false;

  /**
   * @param table the name of the tables that set the trace, which stories leave out
   * @param settingChain their chain whose rule sets it
   * @param hookEnds their chains that packets come to at the end of each hook
   */
  constructor(
    table: string,
    settingChain: string,
    hookEnds: Readonly<Record<Hook, string>>,
    clock: Pick<Clock, "now" | "monotonic">,
  ) {
    this.#table = table;
    this.#settingChain = settingChain;
    this.#hookEnds = new Map(Object.entries(hookEnds).map(([hook, chain]) => [chain, hook as Hook]));
    this.#clock = clock;
  }

  /** Takes one line, and returns the stories that it completes. */
  add(line: TraceLine): PacketStory[] {
    const now = this.#clock.monotonic();
    if (now - this.#lastLineAt > LULL_MS) this.#hasLost = false;
    this.#lastLineAt = now;
    if (line.table === this.#table) return this.#addOwn(line);
    const story = this.#open.get(line.id);
    if (story === undefined) return [];
    story.lastLineAt = now;
    addToStages(story.stages, line);
    const end = endOf(line);
    return end === undefined ? [] : [this.#close(story, end)];
  }

  /**
   * Tells that messages of the kernel were lost. nft reports that before it prints those that came earlier: until a lull,
   * no story that is not ended by a drop is known to be complete.
   */
  lose(): void {
    this.#lastLineAt = this.#clock.monotonic();
    this.#hasLost = true;
    for (const story of this.#open.values()) story.mayLack = true;
  }

  /** The stories without a line for so many milliseconds, which are complete. */
  silentFor(ms: number): PacketStory[] {
    const time = this.#clock.monotonic() - ms;
    const silent = [...this.#open.values()].filter(({ lastLineAt }) => lastLineAt <= time);
    return silent.map((story) => this.#close(story, { kind: "passed" }));
  }

  /** Begins no more stories. Returns whether some are open. */
  end(): boolean {
    this.#hasEnded = true;
    return this.#open.size > 0;
  }

  /** The stories that are open, as far as they are known. */
  rest(): PacketStory[] {
    return [...this.#open.values()].map((story) => this.#close(story, { kind: "unknown" }));
  }

  #addOwn(line: TraceLine): PacketStory[] {
    const { id } = line;
    const hook = this.#hookEnds.get(line.chain);
    if (hook !== undefined) {
      const story = this.#open.get(id);
      if (story === undefined) return [];
      story.lastLineAt = this.#lastLineAt;
      const packet = line.kind === "packet" ? line.packet : (story.passed?.packet ?? story.packet);
      story.passed = { hook, packet };
      return [];
    }
    if (line.kind === "packet") {
      if (this.#isBack(line.packet)) return this.#begin(id, line.packet);
      if (this.#arrived.size >= MOST_OPEN) this.#arrived.delete(oldest(this.#arrived));
      this.#arrived.set(id, line.packet);
      return [];
    }
    const packet = this.#arrived.get(id);
    if (packet === undefined || (line.kind === "rule" && line.chain !== this.#settingChain)) return [];
    this.#arrived.delete(id);
    return line.kind === "rule" ? this.#begin(id, packet) : [];
  }

  /** Whether a packet has left the node over loopback in one of the stories. Its source may have been translated then. */
  #isBack({ input, protocol, destination, destinationPort }: TracedPacket): boolean {
    if (input !== "lo") return false;
    return [...this.#open.values()].some(({ packet, passed }) => {
      const last = passed?.packet ?? packet;
      return (
        last.protocol === protocol &&
        last.destination === destination &&
        last.destinationPort === destinationPort
      );
    });
  }

  #begin(id: string, packet: TracedPacket): PacketStory[] {
    if (this.#hasEnded) return [];
    const again = this.#open.get(id);
    const told = again === undefined ? [] : [this.#close(again, { kind: "passed" })];
    const first = this.#open.get(oldest(this.#open));
    if (first !== undefined && this.#open.size >= MOST_OPEN)
      told.push(this.#close(first, { kind: "unknown" }));
    this.#open.set(id, {
      id,
      startedAt: this.#clock.now(),
      sequence: this.#sequence++,
      packet,
      stages: [],
      lastLineAt: this.#lastLineAt,
      mayLack: this.#hasLost,
    });
    return told;
  }

  /** @param end how it ended by nftables; `passed` where no chain stopped it */
  #close(story: OpenStory, end: TraceEnd): PacketStory {
    const { id, startedAt, sequence, packet, passed, stages, mayLack } = story;
    this.#open.delete(id);
    const isKnown = end.kind !== "passed" || (!mayLack && isAccepted(stages));
    const known = isKnown && end.kind === "passed" ? endAfter(passed?.hook) : end;
    return {
      ...{ id, startedAt, sequence, packet, stages },
      ...(passed === undefined ? {} : { last: passed.packet }),
      end: isKnown ? known : { kind: "unknown" },
    };
  }
}

/** How a packet ended that no chain stopped. @param hook the last one that it passed */
function endAfter(hook: Hook | undefined): TraceEnd {
  if (hook === "input" || hook === "postrouting") return { kind: "passed" };
  return hook === undefined ? { kind: "stopped" } : { kind: "stopped", after: hook };
}

/** The key that was added first, "" of an empty map. */
function oldest(map: ReadonlyMap<string, unknown>): string {
  return map.keys().next().value ?? "";
}
