import type { Clock } from "../../base/clock.ts";
import type { Hook } from "../../trace/outcome.ts";
import type { TracedPacket, TraceLine, TracePlace } from "./trace-line.ts";
import { HOOK_ENDS, LIMITED_CHAIN } from "./trace-rules.ts";

/** A rule that a packet matched. */
export interface TracedRule {
  /** Differs from the stage's chain after a jump. */
  readonly chain: string;
  /** As nft prints it. */
  readonly rule: string;
  /** `continue`, `accept`, `drop`, `jump X`, `goto X`, `return`. */
  readonly verdict: string;
}

/** The path of a packet through one base chain. */
export interface TraceStage extends TracePlace {
  /** The headers at the start of the chain, if nft printed them. */
  readonly packet: TracedPacket | undefined;
  readonly rules: readonly TracedRule[];
  /** The policy that decided, "" if a rule did. */
  readonly policy: string;
}

/** How the path of a packet ended. */
export type TraceEnd =
  /** The packet passed all chains of input or postrouting. */
  | { readonly kind: "passed" }
  /**
   * The kernel stopped the packet outside nftables, after the hook `after`, or in its first hook if that is
   * absent.
   */
  | { readonly kind: "stopped"; readonly after?: StoppingHook }
  /**
   * Messages of the kernel were lost or came too late, or a rule passed the packet to a program (`queue`).
   */
  | { readonly kind: "unknown" }
  /** `rule` is "" if the policy of the chain decided. */
  | ({ readonly kind: "dropped" | "rejected"; readonly rule: string } & TracePlace);

/** The hooks after which the kernel may stop a packet. */
export type StoppingHook = "prerouting" | "forward" | "output";

/** The path of one packet through the chains of all tables. */
export interface PacketStory {
  readonly id: string;
  /** Wall clock of its first line, milliseconds since 1970. */
  readonly startedAt: number;
  /** The number of the story in its trace, in the order of their beginnings. */
  readonly sequence: number;
  readonly packet: TracedPacket;
  /** The headers after the last hook that it passed, perhaps translated; absent if it passed none. */
  readonly last?: TracedPacket | undefined;
  readonly stages: readonly TraceStage[];
  readonly end: TraceEnd;
}

function addToStages(stages: TraceStage[], line: TraceLine): void {
  if (line.kind === "other") return;
  const { family, table, chain } = line;
  const last = stages.at(-1);
  const isOfLast =
    last?.table === table && last.family === family && (line.kind === "rule" || last.chain === chain);
  const begun: TraceStage = { family, table, chain, packet: undefined, rules: [], policy: "" };
  const stage = (line.kind !== "packet" && isOfLast && stages.pop()) || begun;
  if (line.kind === "packet") stages.push({ ...stage, packet: line.packet });
  else if (line.kind === "policy") stages.push({ ...stage, policy: line.verdict });
  else stages.push({ ...stage, rules: [...stage.rules, { chain, rule: line.rule, verdict: line.verdict }] });
}

const REJECT = /(?:^| )reject(?: |$)/;

/** How a line ends its packet; undefined if the packet continues. */
function endOf(line: TraceLine): TraceEnd | undefined {
  if ((line.kind !== "rule" && line.kind !== "policy") || line.verdict !== "drop") return undefined;
  const { family, table, chain } = line;
  const rule = line.kind === "rule" ? line.rule : "";
  return { kind: REJECT.test(rule) ? "rejected" : "dropped", family, table, chain, rule };
}

/** The end of a packet that no chain stopped. */
function endAfter({ mayLack, stages, passed }: OpenStory): TraceEnd {
  const last = stages.at(-1);
  // If the last known chain did not accept the packet, its next lines are missing.
  const isAccepted =
    last === undefined || last.policy === "accept" || last.rules.at(-1)?.verdict === "accept";
  if (mayLack || !isAccepted) return { kind: "unknown" };
  if (passed === undefined) return { kind: "stopped" };
  const { hook } = passed;
  return hook === "input" || hook === "postrouting" ? { kind: "passed" } : { kind: "stopped", after: hook };
}

interface OpenStory extends Omit<PacketStory, "stages" | "last" | "end"> {
  readonly stages: TraceStage[];
  /** The last hook that the packet passed, and its headers then. */
  passed?: { readonly hook: Hook; readonly packet: TracedPacket };
  /** Monotonic clock, milliseconds. */
  lastLineAt: number;
  /** Whether messages about this packet may have been lost. */
  mayLack: boolean;
}

/** The hook that each of the {@link HOOK_ENDS} ends. */
const HOOK_OF = new Map<string, Hook>(
  Object.entries(HOOK_ENDS).map(([hook, chain]) => [chain, hook as Hook]),
);

/** Maximum number of open stories. Beyond it, the oldest one is reported incomplete. */
const MOST_OPEN = 1000;

/** Pause, in milliseconds, after which all messages of the kernel have been read. */
const LULL_MS = 200;

/**
 * Sorts the mixed lines of several packets into stories. A story begins where the given table
 * sets the trace, or where a packet of a story comes back over loopback, which gives it another id; it ends
 * with a drop, when its id is used again, or after a time without a line. Packets that other programs trace
 * pass the given table as well.
 */
export class StoryCollector {
  readonly #table: string;
  readonly #clock: Pick<Clock, "now" | "monotonic">;
  readonly #open = new Map<string, OpenStory>();
  /**
   * Headers of packets in the trace's own table by id, until a line shows whether this trace selected them.
   */
  readonly #arrived = new Map<string, TracedPacket>();
  #lastLineAt = Number.NEGATIVE_INFINITY;
  #sequence = 0;
  #hasLost = false;
  #hasEnded = false;

  /** @param table the name of the tables that set the trace, which stories omit */
  constructor(table: string, clock: Pick<Clock, "now" | "monotonic">) {
    this.#table = table;
    this.#clock = clock;
  }

  /** Adds a line, and returns the stories that it completes. */
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
   * Records that kernel messages were lost. nft reports the loss before it prints earlier messages: until a
   * lull, only stories that end with a drop are known to be complete.
   */
  lose(): void {
    this.#lastLineAt = this.#clock.monotonic();
    this.#hasLost = true;
    for (const story of this.#open.values()) story.mayLack = true;
  }

  /** Completes the stories that have had no line for `ms` milliseconds. */
  silentFor(ms: number): PacketStory[] {
    const time = this.#clock.monotonic() - ms;
    const silent = [...this.#open.values()].filter(({ lastLineAt }) => lastLineAt <= time);
    return silent.map((story) => this.#close(story));
  }

  /** Stops beginning new stories. @returns whether some are still open */
  end(): boolean {
    this.#hasEnded = true;
    return this.#open.size > 0;
  }

  /** Ends the open stories with an unknown outcome. */
  rest(): PacketStory[] {
    return [...this.#open.values()].map((story) => this.#close(story, { kind: "unknown" }));
  }

  #addOwn(line: TraceLine): PacketStory[] {
    const { id } = line;
    const hook = HOOK_OF.get(line.chain);
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
    if (packet === undefined || (line.kind === "rule" && line.chain !== LIMITED_CHAIN)) return [];
    this.#arrived.delete(id);
    return line.kind === "rule" ? this.#begin(id, packet) : [];
  }

  /**
   * Whether a packet returns over loopback from one of the open stories. Its source may have been translated.
   */
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
    const told = again === undefined ? [] : [this.#close(again)];
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

  #close(story: OpenStory, end = endAfter(story)): PacketStory {
    const { id, startedAt, sequence, packet, passed, stages } = story;
    this.#open.delete(id);
    return { id, startedAt, sequence, packet, last: passed?.packet, stages, end };
  }
}

/** The key that was added first, "" of an empty map. */
function oldest(map: ReadonlyMap<string, unknown>): string {
  return map.keys().next().value ?? "";
}
