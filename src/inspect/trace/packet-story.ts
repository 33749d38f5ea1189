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
  /** Messages of the kernel on it were lost or came too late, or a rule gave it to a program (`queue`). */
  | { readonly kind: "unknown" }
  /** `rule` is "" when the chain's policy decided. */
  | ({ readonly kind: "dropped" | "rejected"; readonly rule: string } & TracePlace);

/** One packet's way through the chains of all tables. */
export interface PacketStory {
  readonly id: string;
  /** Wall clock of its first line, milliseconds since 1970. */
  readonly startedAt: number;
  /** Counts the stories of a trace, in the order in which they began. */
  readonly sequence: number;
  readonly packet: TracedPacket;
  readonly stages: readonly TraceStage[];
  readonly end: TraceEnd;
}

/** Adds a line to the ways through base chains that a packet has had so far. */
export function addToStages(stages: TraceStage[], line: TraceLine): void {
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
export function endOf(line: TraceLine): TraceEnd | undefined {
  if ((line.kind !== "rule" && line.kind !== "policy") || line.verdict !== "drop") return undefined;
  const { family, table, chain } = line;
  const rule = line.kind === "rule" ? line.rule : "";
  return { kind: REJECT.test(rule) ? "rejected" : "dropped", family, table, chain, rule };
}

/** Whether all chains that a packet met accepted it: what is missing then is at the end of its way, or nothing. */
export function isAccepted(stages: readonly TraceStage[]): boolean {
  const last = stages.at(-1);
  return last === undefined || last.policy === "accept" || last.rules.at(-1)?.verdict === "accept";
}
