import { socketText } from "../../base/text.ts";
import type { FlowEnd } from "../../kernel/connections.ts";
import { familyOf } from "../../model/ip.ts";
import type { ObjectCache } from "../../model/object-cache.ts";
import { TABLE_NAME } from "../../nft/ast/ruleset.ts";
import { frontendKey, nodePortKey } from "../../ruleset/keys.ts";
import type { RulesetState } from "../../ruleset/ruleset-state.ts";
import type { Effect } from "../../trace/outcome.ts";
import { stepWords } from "../explain/step-words.ts";
import { portText } from "../explain/words.ts";
import { podNames } from "../pod-names.ts";
import type { PacketStory, TracedRule, TraceEnd } from "./packet-story.ts";
import { isResetForVanished } from "./reset-endpoint.ts";
import type { TracedPacket } from "./trace-line.ts";

/** One end of a packet. */
export interface NamedEnd {
  readonly address: string;
  /** 0 where the protocol has none. */
  readonly port: number;
  /** `Service shop/cart port http (80/tcp)`, a Pod's `namespace/name`, `this node`; "" for others. */
  readonly name: string;
}

/** A rule that a packet matched, and its meaning if it is ours. */
export interface NamedRule extends TracedRule {
  readonly means?: string;
}

/** A packet's way through one base chain. */
export interface NamedStage {
  readonly family: string;
  readonly table: string;
  readonly chain: string;
  readonly rules: readonly NamedRule[];
  /** "" when a rule decided. */
  readonly policy: string;
  /** The destination from here on, where an earlier chain has changed it. */
  readonly destination?: NamedEnd;
}

/** {@link PacketStory} in the words of Services and endpoints; a line of `trace --output json`. */
export interface NamedStory {
  /** RFC 3339. */
  readonly time: string;
  readonly protocol: string;
  readonly flags: readonly string[];
  readonly source: NamedEnd;
  readonly destination: NamedEnd;
  /** The interface that it came in by, "" when this node sent it. */
  readonly input: string;
  readonly stages: readonly NamedStage[];
  readonly end: TraceEnd;
  /** One sentence without a full stop: what became of it, and by whom. */
  readonly message: string;
}

/** Names addresses, rules and ends from the objects. */
export class StoryNames {
  readonly #state: RulesetState;
  readonly #nodeAddresses: ReadonlySet<string>;
  readonly #pods: ReadonlyMap<string, string>;

  constructor(state: RulesetState, cache: ObjectCache, nodeAddresses: ReadonlySet<string>) {
    this.#state = state;
    this.#nodeAddresses = nodeAddresses;
    this.#pods = podNames(cache);
  }

  /**
   * A story with its names.
   * @param endpoint the endpoint of a packet that was reset, where it is known
   */
  named(story: PacketStory, endpoint?: FlowEnd): NamedStory {
    const { packet, startedAt, end } = story;
    const stages = namedStages(story, (one) => this.#destination(one));
    return {
      time: new Date(startedAt).toISOString(),
      protocol: packet.protocol,
      flags: packet.flags,
      source: { address: packet.source, port: packet.sourcePort, name: this.#machine(packet.source) },
      destination: this.#destination(packet),
      input: packet.input,
      stages,
      end,
      message: isResetForVanished(story)
        ? resetText(this.#destination(packet), endpoint)
        : endText(end, stages.findLast(({ destination }) => destination !== undefined)?.destination),
    };
  }

  #destination({ destination: address, destinationPort: port, protocol }: TracedPacket): NamedEnd {
    const state = address === "" ? undefined : this.#state.families[familyOf(address)];
    const isNodes = this.#nodeAddresses.has(address);
    const frontend =
      state?.ownerOf(frontendKey(address, protocol, port)) ??
      (isNodes ? state?.ownerOf(nodePortKey(familyOf(address), protocol, port)) : undefined);
    const name = frontend === undefined ? this.#machine(address) : `Service ${portText(frontend)}`;
    return { address, port, name };
  }

  #machine(address: string): string {
    return this.#nodeAddresses.has(address) ? "this node" : (this.#pods.get(address) ?? "");
  }
}

function namedStages({ packet, stages }: PacketStory, name: (packet: TracedPacket) => NamedEnd): NamedStage[] {
  let last = packet;
  return stages.map(({ family, table, chain, packet: now, rules, policy }) => {
    const isMoved = now !== undefined && !sameDestination(last, now);
    last = now ?? last;
    return {
      family,
      table,
      chain,
      rules: rules.map((rule) => namedRule(rule, table)),
      policy,
      ...(isMoved ? { destination: name(last) } : {}),
    };
  });
}

function sameDestination(a: TracedPacket, b: TracedPacket): boolean {
  return a.destination === b.destination && a.destinationPort === b.destinationPort;
}

function namedRule(rule: TracedRule, table: string): NamedRule {
  if (table !== TABLE_NAME) return rule;
  const place = { table: { family: "ip", name: TABLE_NAME }, hook: "prerouting", index: 0, rule: [] } as const;
  const means = stepWords({ ...place, kind: "rule", completed: true, chain: rule.chain, effects: effectsOf(rule) });
  return means === undefined ? rule : { ...rule, means };
}

/** The effects that can be told from a rule's text and its verdict. */
function effectsOf({ rule, verdict }: TracedRule): Effect[] {
  const map = / vmap @(\S+)$/.exec(rule)?.[1];
  const set = / @(cluster-ips|hairpin-connections)(?: |$)/.exec(rule)?.[1];
  const choices = / numgen random mod (\d+)/.exec(rule)?.[1];
  return [
    ...(map === undefined ? [] : [{ kind: "found", set: map, key: "", value: verdict } as const]),
    ...(set === undefined ? [] : [{ kind: "found", set, key: "", value: "" } as const]),
    ...(choices === undefined ? [] : [{ kind: "random", value: 0, choices: Number(choices) } as const]),
    ...(/(?:^| )dnat ip6? to /.test(rule) ? [{ kind: "dnat", to: { address: "", port: 0 } } as const] : []),
    ...(/ meta mark set /.test(` ${rule}`) ? [{ kind: "assigned", register: "mark", value: 0 } as const] : []),
    ...(/ masquerade(?: |$)/.test(` ${rule}`) ? [{ kind: "masquerade" } as const] : []),
    ...(/ reject(?: |$)/.test(` ${rule}`) ? [{ kind: "reject", reset: rule.endsWith(" tcp reset") } as const] : []),
    ...(/ drop$/.test(` ${rule}`) ? [{ kind: "verdict", verdict: "drop" } as const] : []),
  ];
}

/** `reset: the endpoint 10.244.1.5:8080 left Service shop/cart port http (80/tcp)` */
function resetText({ name }: NamedEnd, endpoint: FlowEnd | undefined): string {
  const which = endpoint === undefined ? "its endpoint" : `the endpoint ${socketText(endpoint.address, endpoint.port)}`;
  return `reset: ${which} left ${name === "" ? "every EndpointSlice" : name}`;
}

function endText(end: TraceEnd, destination: NamedEnd | undefined): string {
  if (end.kind === "unknown") {
    return "its end is not known: messages of the kernel were lost or came too late, or a rule gave it to a program (queue)";
  }
  if (end.kind === "passed") {
    const to = destination === undefined ? "" : `; it goes to ${endName(destination)}`;
    return `passed every chain of nftables${to}`;
  }
  const { kind, family, table, chain, rule } = end;
  const by = rule === "" ? `the policy of chain ${chain}` : `a rule of chain ${chain}`;
  return `${kind} by ${by} in table ${family} ${table}, ${ownerText(table)}`;
}

/** `10.0.0.1:80 (shop/cart-1)`. */
export function endName({ address, port, name }: NamedEnd): string {
  const socket = port === 0 ? address : socketText(address, port);
  return name === "" ? socket : `${socket} (${name})`;
}

/** The programs whose tables have names of their own; iptables-nft's are those of the legacy tables. */
const OWNERS: readonly (readonly [pattern: RegExp, owner: string])[] = [
  [/^nft-proxy$/, "which is nft-proxy's"],
  [/^kube-proxy$/, "which is kube-proxy's"],
  [/^(?:filter|nat|mangle|raw|security)$/, "which is iptables' or of the host's own rules"],
  [/^firewalld$/, "which is firewalld's"],
  [/^calico$/, "which is Calico's"],
  [/^cilium/, "which is Cilium's"],
  [/^docker/, "which is Docker's"],
  [/^libvirt/, "which is libvirt's"],
];

function ownerText(table: string): string {
  return OWNERS.find(([pattern]) => pattern.test(table))?.[1] ?? "which is not nft-proxy's";
}
