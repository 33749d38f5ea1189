import {
  addressesOf,
  type HostName,
  nodeSecondAddress,
  type ProbeSource,
  podGateway,
  podNames,
} from "./topology.ts";

/** Connections to try, with the fields of a scenario file. */
export interface Probe {
  readonly id: string;
  readonly from: ProbeSource;
  /** The destination: an IPv4 or IPv6 address. */
  readonly to: string;
  /** 0 of a ping. */
  readonly port: number;
  readonly proto: "tcp" | "udp" | "ping";
  /** The number of connections. Default: 30, or 25 for each endpoint seen if that is more. */
  readonly n?: number;
  /** Whether the endpoint depends on chance, so that only the number of endpoints is compared. */
  readonly sticky?: boolean;
  /** Time to wait for an answer, seconds. Default: 1.5. */
  readonly wait?: number;
}

/**
 * The number of times of each answer: `<endpoint address> <port> <peer it saw>`, `refused`, `timeout`,
 * `closed` or `error:<code>`. Of a ping: the address that answered, 0
 * and `kept`, because nobody else sees its source.
 */
export type Tally = Readonly<Record<string, number>>;

/**
 * The outcome of a probe. `result` is `ok`, `refused` (a reset or an ICMP error) or `timeout` (nothing came
 * back), or several of them joined by `/` if connections had different results. `endpoints` are
 * `<address> <port>`, sorted. `source` is the address that the endpoints saw: `kept` for the client's own,
 * `node` for one of the node's, `kept/node` for both, otherwise the address. A sticky probe has `distinct`,
 * the number of endpoints seen, instead of `endpoints`.
 */
export interface Outcome {
  readonly result: string;
  readonly source?: string;
  readonly endpoints?: readonly string[];
  readonly distinct?: number;
}

/** Summarises the results of a probe's connections. */
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
  // A sticky pod or node may have got itself as its endpoint, and then the endpoint sees another source.
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
