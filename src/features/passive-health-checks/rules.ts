import { portNameOf } from "../../model/endpoint.ts";
import type { EndpointChoice } from "../../model/endpoint-choice.ts";
import { isLinkLocal, isLoopback, isMulticast, isUnspecified } from "../../model/ip.ts";
import type { ServicePort } from "../../model/service-port.ts";
import {
  CONNECTION_HAS_DNAT,
  concat,
  hasBit,
  hasTcpFlag,
  masked,
  matches,
  meta,
  payload,
} from "../../nft/ast/expression.ts";
import type { Rule, Statement } from "../../nft/ast/json.ts";
import type { Chain, DataType, SetSpec } from "../../nft/ast/ruleset.ts";
import { splitParts } from "../../nft/elements.ts";
import { destinationAddress, frontendKey, sourceAddress } from "../../ruleset/keys.ts";
import type { DesiredElement, FamilyContext, RulesetPart } from "../../ruleset/node-context.ts";
import { addressType, PLAIN } from "../../ruleset/set-specs.ts";
import { checkOf, FEATURE, PASSIVE_HEALTH_ANNOTATION, withoutCheck } from "./check.ts";

/** TCP endpoints that are watched, with counters: new connections to them. */
export const ATTEMPTS = "endpoint-attempts";
/** The same: their answers (SYN-ACK). */
export const ANSWERS = "endpoint-answers";
/** The same: their resets before an answer. */
export const RESETS = "endpoint-resets";

/** The sets of watched endpoints. */
export const WATCH_SETS = [ATTEMPTS, ANSWERS, RESETS] as const;

/** The name of a set of watched endpoints. */
export type WatchSetName = (typeof WATCH_SETS)[number];

/** The chain that counts new connections to watched endpoints. */
const COUNT_ATTEMPTS = "count-attempts";

/** The chain that counts answers and resets of watched endpoints. */
const COUNT_ANSWERS = "count-answers";

/**
 * Maximum number of watched endpoints of a family; those of one namespace may be half of them. The daemon
 * reads their counters each second.
 */
const MOST_WATCHED = 10_000;

const ORIGINAL: Statement = matches({ ct: { key: "direction" } }, "original");

const IS_CONFIRMED: Statement = hasBit({ ct: { key: "status" } }, "confirmed");

/** Matches translated connections whose clients have not acknowledged an answer; others are assured. */
const AWAITS_ANSWER: Statement = matches(
  masked({ ct: { key: "status" } }, { "|": ["assured", "dnat"] }),
  "dnat",
);

/**
 * Sends answers of watched endpoints to {@link COUNT_ANSWERS}. Every packet of the hook passes this rule. The
 * status tells established connections with fewer instructions than TCP's flags.
 */
const TO_ANSWERS: Rule = [
  matches(meta("l4proto"), "tcp"),
  AWAITS_ANSWER,
  { jump: { target: COUNT_ANSWERS } },
];

const TO_ATTEMPTS: Rule = [CONNECTION_HAS_DNAT, { jump: { target: COUNT_ATTEMPTS } }];

export const rules: RulesetPart = {
  name: FEATURE,
  specs,
  chains,
  onFiltering: [TO_ANSWERS],
  afterTranslation: [TO_ATTEMPTS],
  elementsOf,
  ejection: {
    mostOf: (port, context) => checkOf(port, context)?.maxEjected,
    set: ATTEMPTS,
    mayTry,
  },
  budget: {
    text: "passive health checks",
    topic: "passive health check",
    event: "EndpointsNotWatched",
    annotation: PASSIVE_HEALTH_ANNOTATION,
    amountOf: ({ service, endpoints }, context) => {
      const watched = service.ports.filter((spec) => checkOf({ service, spec }, context));
      return watched.reduce((sum, spec) => sum + (endpoints.get(portNameOf(spec))?.count ?? 0), 0);
    },
    most: MOST_WATCHED,
    elements: WATCH_SETS.length,
    what: "watched endpoints in a family",
    without: withoutCheck,
  },
};

function specs({ family }: FamilyContext): SetSpec[] {
  const key: DataType[] = [addressType(family), "inet_service"];
  return WATCH_SETS.map((name) => ({ ...PLAIN, name, key, counter: true }));
}

/**
 * The chains that count for watched endpoints; the lookups count, by the counters of the elements. The kernel
 * confirms a connection when its first packet has passed all hooks. So a connection counts once, even if its
 * SYN is sent again, or passes the hooks twice because the node sends it to itself.
 */
function chains({ family }: FamilyContext): readonly Chain[] {
  const to = concat(destinationAddress(family), payload("tcp", "dport"));
  const from = concat(sourceAddress(family), payload("tcp", "sport"));
  return [
    {
      name: COUNT_ATTEMPTS,
      rules: [[IS_CONFIRMED, { return: null }], [matches(to, `@${ATTEMPTS}`)]],
    },
    {
      name: COUNT_ANSWERS,
      rules: [
        [ORIGINAL, { return: null }],
        [hasTcpFlag("syn"), matches(from, `@${ANSWERS}`)],
        [hasTcpFlag("rst"), matches(from, `@${RESETS}`)],
      ],
    },
  ];
}

const NOTHING: readonly DesiredElement[] = [];

/** The elements of the endpoints of a service port that are watched, ejected ones included. */
function elementsOf(
  port: ServicePort,
  { cluster, local, ejected = [] }: EndpointChoice,
  context: FamilyContext,
): readonly DesiredElement[] {
  if (checkOf(port, context) === undefined) return NOTHING;
  const targets = new Set([...cluster, ...local, ...ejected].map(({ target }) => target));
  return [...targets].sort().flatMap((key) => WATCH_SETS.map((set) => ({ set, key, value: "" })));
}

/** Not the API server, and not addresses that no pod or other node can have. */
export function mayTry(target: string, { apiServers }: FamilyContext): boolean {
  const [address = "", port = ""] = splitParts(target);
  const isSpecial = [isLoopback, isLinkLocal, isMulticast, isUnspecified].some((is) => is(address));
  return !isSpecial && !apiServers.includes(frontendKey(address, "tcp", Number(port)));
}
