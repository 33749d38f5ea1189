import { assign, CONNECTION_HAS_DNAT, concat, differs, matches, meta } from "../nft/ast/expression.ts";
import type { Expression, Rule, Statement } from "../nft/ast/json.ts";
import { hasBit, toBalancer, toList } from "./balancers.ts";
import type { FrontendKind } from "./frontend-kinds.ts";
import { byPodOrigin, destinationAddress, FROM_NODE, packetFrontend, sourceAddress } from "./keys.ts";
import { LOCAL_BIT, TO_CLUSTER_LIST, TO_OWN_LIST } from "./list-ids.ts";
import type { FamilyContext } from "./node-context.ts";
import { CLUSTER_IPS } from "./sets.ts";

/** Masquerades ClusterIP traffic from outside the pod network: otherwise answers bypass this node. */
export function masqueradeClusterTraffic(context: FamilyContext): Rule[] {
  const { family, masqueradeAll } = context;
  const toClusterIP = matches(destinationAddress(family), `@${CLUSTER_IPS}`);
  if (masqueradeAll) return [[toClusterIP, setMark(context)]];
  const notFromPods = byPodOrigin(context, differs);
  // The test for pods comes first, as it is cheaper than the lookup.
  return notFromPods === undefined ? [] : [[notFromPods, toClusterIP, setMark(context)]];
}

/**
 * The policy "Cluster" masquerades, so that answers come back through this node.
 * @param checks of source ranges, then of features: forbidden clients are not counted
 */
export function externalRules(context: FamilyContext, kind: FrontendKind, checks: readonly Rule[]): Rule[] {
  return [
    ...checks,
    [hasBit(LOCAL_BIT), { goto: { target: kind.chains.externalLocal } }],
    [setMark(context), toList(TO_CLUSTER_LIST), toBalancer(kind)],
  ];
}

/**
 * Traffic from outside keeps its address and reaches only local endpoints. Traffic of pods and of the node
 * itself uses the cluster-wide list, as if it had left the cluster and come back.
 */
export function externalLocalRules(context: FamilyContext, kind: FrontendKind): Rule[] {
  const fromPods = byPodOrigin(context, matches);
  return [
    ...(fromPods === undefined ? [] : [[fromPods, toList(TO_CLUSTER_LIST), toBalancer(kind)]]),
    [FROM_NODE, setMark(context), toList(TO_CLUSTER_LIST), toBalancer(kind)],
    [toList(TO_OWN_LIST), toBalancer(kind)],
  ];
}

/** Marks packets whose source address is replaced when they leave the node. */
function setMark({ masqueradeMark }: FamilyContext): Statement {
  const mark: Expression = meta("mark");
  return assign(mark, { "|": [mark, masqueradeMark] });
}

/** Replaces the source address of marked packets and of hairpin connections. All others keep it. */
export function masqueradingRules(
  { family, masqueradeMark }: FamilyContext,
  kinds: readonly FrontendKind[],
): Rule[] {
  const mark = meta("mark");
  const masquerade: Statement = { masquerade: { flags: "fully-random" } };
  return [
    [differs({ "&": [mark, masqueradeMark] }, 0), assign(mark, { "^": [mark, masqueradeMark] }), masquerade],
    ...kinds.map(({ kind, hairpins }) => {
      const destination = kind === "interval" ? [destinationAddress(family)] : packetFrontend(family);
      const ends = concat(sourceAddress(family), ...destination);
      return [CONNECTION_HAS_DNAT, matches(ends, `@${hairpins}`), masquerade];
    }),
  ];
}
