import { SharedValues } from "../../base/shared-values.ts";
import type { Protocol } from "../../model/ids.ts";
import type { Service } from "../../model/service.ts";
import { verdictMap } from "../../nft/ast/expression.ts";
import { SERVICE_PORT_ID } from "../../ruleset/balancers.ts";
import { digest } from "../../ruleset/chain-names.ts";
import type { PortPart, RulesetPart } from "../../ruleset/node-context.ts";
import {
  CONNECTION_TIMEOUTS_ANNOTATION,
  type ConnectionTimeouts,
  connectionTimeoutsOf,
  FEATURE,
  KERNEL_TIMEOUTS,
  TIMED_STATES,
  TIMEOUT_NAMES,
  type TimeoutName,
  timeoutsOfProtocol,
} from "./timeouts.ts";

/** Service port id to the chain that assigns the timeouts of its connections. */
const TIMEOUTS = "connection-timeouts";

export const rules = {
  name: FEATURE,
  specs: () => [{ name: TIMEOUTS, key: ["classid"], value: "verdict", dynamic: false, counter: false }],
  // All ways of a service port share one element. Only the first packet of a connection reaches this rule,
  // and the kernel assigns timeouts with no other packet.
  onArrival: [[verdictMap(SERVICE_PORT_ID, TIMEOUTS)]],
  isChainOfPort: (name) => /^timeouts-[\da-f]{20}$/.test(name),
  partOf: ({ service, spec: { protocol } }, { settings }) => {
    const own = timeoutsOfProtocol(connectionTimeoutsOf(service), protocol);
    return own && timeoutsFor(protocol, own, settings as ConnectionTimeouts);
  },
  budget: {
    text: "its connection timeouts",
    topic: "timeouts",
    event: "ConnectionTimeoutsNotSet",
    annotation: CONNECTION_TIMEOUTS_ANNOTATION,
    amountOf: ({ service }) => timedProtocols(service).length,
    what: "different connection timeouts in a family",
    sharedOf: ({ service }) =>
      `${timedProtocols(service).join()} ${JSON.stringify(connectionTimeoutsOf(service))}`,
    none: "this node's kernel cannot set them",
  },
  needs: {
    name: "connection timeouts",
    hint: "load or build the kernel module nft_ct with timeouts (CONFIG_NFT_CT, CONFIG_NF_CONNTRACK_TIMEOUT)",
    consequence: "the feature connection-timeouts has no effect: Services use the node's timeouts",
    sample: () => [timeoutsFor("tcp", {}, {}), timeoutsFor("udp", {}, {})],
  },
} satisfies RulesetPart;

/** The protocols with timeouts among the ports of a Service, sorted: each has a list of its own. */
function timedProtocols(service: Service): readonly Protocol[] {
  const timeouts = connectionTimeoutsOf(service);
  if (timeouts === undefined) return [];
  const protocols = new Set(service.ports.map(({ protocol }) => protocol));
  return [...protocols].filter((protocol) => timeoutsOfProtocol(timeouts, protocol)).sort();
}

/** Shares equal parts, to save memory. */
const parts = new SharedValues<PortPart>();

/**
 * The chain and object for some timeouts of a protocol, with the same name. Equal timeouts share both, and
 * none are rounded: a budget limits their number. The object has all states, because nft would fill in
 * defaults of its own.
 * @param ofNode the node's own timeouts by name; the kernel's default where one is missing
 */
function timeoutsFor(protocol: Protocol, own: ConnectionTimeouts, ofNode: ConnectionTimeouts): PortPart {
  const names = TIMEOUT_NAMES.filter((name) => TIMED_STATES[name].protocol === protocol);
  const seconds = (name: TimeoutName) => own[name] ?? ofNode[name] ?? KERNEL_TIMEOUTS[name];
  const policy = Object.fromEntries(names.map((name) => [TIMED_STATES[name].state, seconds(name)]));
  const content = `${protocol} ${JSON.stringify(policy)}`;
  const name = `timeouts-${digest(content)}`;
  return parts.share(content, {
    part: rules,
    map: TIMEOUTS,
    chain: { name, rules: [[{ "ct timeout": name }]] },
    object: { name, protocol, policy },
  });
}
