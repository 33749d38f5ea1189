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
  /** No chain stopped it; the kernel may have, outside of nftables. */
  | { readonly kind: "passed" }
  /** `rule` is "" when the chain's policy decided. */
  | ({ readonly kind: "dropped" | "rejected"; readonly rule: string } & TracePlace);

/** One packet's way through the chains of all tables. */
export interface PacketStory {
  readonly id: string;
  /** Wall clock of its first line, milliseconds since 1970. */
  readonly startedAt: number;
  readonly packet: TracedPacket;
  readonly stages: readonly TraceStage[];
  readonly end: TraceEnd;
}

interface OpenStory {
  readonly id: string;
  readonly startedAt: number;
  readonly packet: TracedPacket;
  readonly stages: TraceStage[];
  lastLineAt: number;
}

/** The most stories that are gathered at a time; the oldest is told as it is. */
const MOST_OPEN = 1000;

/**
 * Puts the lines of several packets' traces, which come mixed, together. A story begins where the given table sets the
 * trace, and ends with a drop, when its id is used again, or after a time without a line.
 */
export class StoryCollector {
  readonly #isStart: (place: TracePlace) => boolean;
  readonly #open = new Map<string, OpenStory>();

  /** @param isStart whether a chain is the one that starts traces; it is not told of */
  constructor(isStart: (place: TracePlace) => boolean) {
    this.#isStart = isStart;
  }

  /**
   * Takes one line.
   * @param now milliseconds
   * @returns the stories that it completes
   */
  add(line: TraceLine, now: number): PacketStory[] {
    if (this.#isStart(line)) return line.kind === "packet" ? this.#begin(line.id, line.packet, now) : [];
    const story = this.#open.get(line.id);
    if (story === undefined) return [];
    story.lastLineAt = now;
    addToStages(story.stages, line);
    const end = endOf(line);
    return end === undefined ? [] : [this.#close(story, end)];
  }

  /** The stories without a line since `time`, which are complete; with Infinity, all. */
  silentSince(time: number): PacketStory[] {
    const silent = [...this.#open.values()].filter(({ lastLineAt }) => lastLineAt <= time);
    return silent.map((story) => this.#close(story, { kind: "passed" }));
  }

  #begin(id: string, packet: TracedPacket, now: number): PacketStory[] {
    const told = [...this.#closed(id), ...(this.#open.size >= MOST_OPEN ? this.#closed(this.#oldest()) : [])];
    this.#open.set(id, { id, startedAt: now, packet, stages: [], lastLineAt: now });
    return told;
  }

  #oldest(): string {
    return this.#open.keys().next().value ?? "";
  }

  #closed(id: string): PacketStory[] {
    const story = this.#open.get(id);
    return story === undefined ? [] : [this.#close(story, { kind: "passed" })];
  }

  #close({ id, startedAt, packet, stages }: OpenStory, end: TraceEnd): PacketStory {
    this.#open.delete(id);
    return { id, startedAt, packet, stages, end };
  }
}

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
