import {
  addressesOf,
  type HostName,
  nodeSecondAddress,
  type ProbeSource,
  podGateway,
  podNames,
} from "./topology.ts";

/** A packet to try, in the words of a scenario file. */
export interface Probe {
  readonly id: string;
  readonly from: ProbeSource;
  /** Where to: an IPv4 or IPv6 address. */
  readonly to: string;
  readonly port: number;
  readonly proto: "tcp" | "udp";
  /** How many connections; without it 90, or 20 for each endpoint seen if that is more. */
  readonly n?: number;
  /** Which endpoint answers is the client's luck; only how many of them counts. */
  readonly sticky?: boolean;
  /** How long to wait for an answer, in seconds; 1.5 without it. */
  readonly wait?: number;
}

/** How often each answer came: `<endpoint address> <port> <peer it saw>`, `refused`, `timeout`, `closed` or `error:<code>`. */
export type Tally = Readonly<Record<string, number>>;

/**
 * What became of a probe. `result` is `ok`, `refused` (a reset or an ICMP error) or `timeout` (nothing came back); several
 * of them joined by `/` when connections fared differently. `endpoints` are `<address> <port>`, sorted. `source` is what
 * the endpoints saw: `kept` the client's own address, `node` one of the node's, both as `kept/node`, else the address.
 * A sticky probe has `distinct`, the number of endpoints seen, in place of `endpoints`.
 */
export interface Outcome {
  readonly result: string;
  readonly source?: string;
  readonly endpoints?: readonly string[];
  readonly distinct?: number;
}

/** Sums up what a probe's connections met. */
export function outcomeOf(probe: Probe, tally: Tally): Outcome {
  const answers = Object.keys(tally);
  const results = distinctSorted(answers.map((answer) => (isAnswer(answer) ? "ok" : answer)));
  if (results.join() !== "ok") return { result: results.join("/") };
  const endpoints = distinctSorted(answers.map((answer) => answer.slice(0, answer.lastIndexOf(" "))));
  const sources = distinctSorted(
    answers.map((answer) => sourceSeen(probe, answer.slice(answer.lastIndexOf(" ") + 1))),
  );
  const source = sources.join("/");
  if (probe.sticky !== true) return { result: "ok", source, endpoints };
  // The one endpoint a pod or the node sticks to may be itself, which alone decides what source it sees.
  const sourceIsLuck = sources.length === 1 && mayMeetItself(probe.from);
  return { result: "ok", ...(sourceIsLuck ? {} : { source }), distinct: endpoints.length };
}

function isAnswer(answer: string): boolean {
  return answer.split(" ").length === 3;
}

function sourceSeen(probe: Probe, peer: string): string {
  const own = addressesOf(probe.from);
  const node = addressesOf("node");
  const isOwn = (probe.to.includes(":") ? own.v6 : own.v4) === peer;
  const isNodes = [node.v4, node.v6, nodeSecondAddress].includes(peer);
  if (isOwn || (probe.from === "node" && isNodes)) return "kept";
  return isNodes || peer === podGateway.v4 || peer === podGateway.v6 ? "node" : peer;
}

const insiders: readonly (ProbeSource | HostName)[] = ["node", ...podNames];

function mayMeetItself(from: ProbeSource): boolean {
  return insiders.includes(from);
}

function distinctSorted(values: readonly string[]): readonly string[] {
  return [...new Set(values)].sort();
}
