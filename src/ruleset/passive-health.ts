import type { Family } from "../base/family.ts";
import type { Endpoint } from "../model/endpoint.ts";
import { isLinkLocal, isLoopback, isMulticast, isUnspecified } from "../model/ip.ts";
import type { ObjectCache } from "../model/object-cache.ts";
import { passiveHealthOf } from "../model/passive-health.ts";
import type { ServicePort } from "../model/service-port.ts";
import type { Ejection, EndpointChoice } from "../model/topology.ts";
import { CONNECTION_HAS_DNAT, concat, masked, matches, meta, payload } from "../nft/ast/expression.ts";
import type { Rule, Statement } from "../nft/ast/json.ts";
import { splitParts } from "../nft/elements.ts";
import type { StaticChain, StaticChainName } from "./chain-names.ts";
import { destinationAddress, frontendKey, sourceAddress } from "./keys.ts";
import { contextOf, type FamilyContext, type NodeContext } from "./node-context.ts";
import { ANSWERS, ATTEMPTS, RESETS } from "./sets.ts";

/** The chain that counts new connections to watched endpoints. */
export const COUNT_ATTEMPTS = "count-attempts" satisfies StaticChainName;

/** The chain that counts answers and resets of watched endpoints. */
export const COUNT_ANSWERS = "count-answers" satisfies StaticChainName;

/** The context of chains, and whether any endpoint is watched: otherwise there are no rules for it. */
export interface WatchContext extends FamilyContext {
  readonly isWatching: boolean;
}

const ORIGINAL: Statement = matches({ ct: { key: "direction" } }, "original");

function hasFlag(right: string): Statement {
  return { match: { op: "in", left: payload("tcp", "flags"), right } };
}

function hasStatus(bit: string): Statement {
  return { match: { op: "in", left: { ct: { key: "status" } }, right: bit } };
}

/** Matches translated connections whose clients have not acknowledged an answer; others are assured. */
const AWAITS_ANSWER: Statement = matches(
  masked({ ct: { key: "status" } }, { "|": ["assured", "dnat"] }),
  "dnat",
);

/**
 * Sends answers of watched endpoints to {@link COUNT_ANSWERS}. Every packet of the hook passes this rule. The
 * status tells established connections with fewer instructions than TCP's flags.
 */
export function countAnswers({ isWatching }: WatchContext): Rule[] {
  if (!isWatching) return [];
  return [[matches(meta("l4proto"), "tcp"), AWAITS_ANSWER, { jump: { target: COUNT_ANSWERS } }]];
}

/** Sends new translated connections to {@link COUNT_ATTEMPTS}. */
export function countAttempts({ isWatching }: WatchContext): Rule[] {
  return isWatching ? [[CONNECTION_HAS_DNAT, { jump: { target: COUNT_ATTEMPTS } }]] : [];
}

/**
 * The chains that count for watched endpoints; the lookups count, by the counters of the elements. The kernel
 * confirms a connection when its first packet has passed all hooks. So a connection counts once, even if its
 * SYN is sent again, or passes the hooks twice because the node sends it to itself.
 */
export function watchChains({ family, isWatching }: WatchContext): readonly StaticChain[] {
  if (!isWatching) return [];
  const to = concat(destinationAddress(family), payload("tcp", "dport"));
  const from = concat(sourceAddress(family), payload("tcp", "sport"));
  return [
    {
      name: COUNT_ATTEMPTS,
      rules: [[hasStatus("confirmed"), { return: null }], [matches(to, `@${ATTEMPTS}`)]],
    },
    {
      name: COUNT_ANSWERS,
      rules: [
        [ORIGINAL, { return: null }],
        [hasFlag("syn"), matches(from, `@${ANSWERS}`)],
        [hasFlag("rst"), matches(from, `@${RESETS}`)],
      ],
    },
  ];
}

/** The endpoints that are taken out of the lists of a service port; undefined if it is not watched. */
export function ejectionFor(
  port: ServicePort,
  { ejected }: Pick<ObjectCache, "ejected">,
  { passiveHealthCheck }: Pick<FamilyContext, "passiveHealthCheck">,
): Ejection | undefined {
  const targets = ejected[port.family];
  if (targets.size === 0) return undefined;
  const check = passiveHealthOf(port, passiveHealthCheck);
  return check && { targets, maxEjected: check.maxEjected };
}

const NOBODY: readonly string[] = [];

/** The endpoints of a service port that are watched, ejected ones included: `address . port`, each once. */
export function watchedTargets(
  port: ServicePort,
  { cluster, local, ejected }: EndpointChoice,
  { passiveHealthCheck }: Pick<FamilyContext, "passiveHealthCheck">,
): readonly string[] {
  if (passiveHealthOf(port, passiveHealthCheck) === undefined) return NOBODY;
  const all: readonly Endpoint[] = [...cluster, ...local, ...(ejected ?? [])];
  return [...new Set(all.map(({ target }) => target))].sort();
}

/**
 * Whether the daemon may connect to an endpoint: not to the API server, and not to addresses that no pod or
 * other node can have. The author of an EndpointSlice can name any address.
 */
export function mayProbe(family: Family, target: string, nodeContext: NodeContext): boolean {
  const [address = "", port = ""] = splitParts(target);
  const isSpecial = [isLoopback, isLinkLocal, isMulticast, isUnspecified].some((is) => is(address));
  const servers = contextOf(nodeContext, family)?.apiServers ?? [];
  return !isSpecial && !servers.includes(frontendKey(address, "tcp", Number(port)));
}
