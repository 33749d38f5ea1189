import {
  type AddressPair,
  addressesOf,
  type HostName,
  hostNames,
  type NamespaceName,
  nodeSecondAddress,
  ownPodRanges,
  type PodName,
  podGateway,
  podNames,
  remotePodRanges,
  remotePods,
  virtualRanges,
} from "./topology.ts";

/** Returns the full name of a lab's namespace, for `ip netns`. */
export type NamespaceNamer = (namespace: NamespaceName) => string;

/** Lines for `ip -n <lan> -batch -`: the bridge, and a link to each host. Run before {@link nodeLinks}. */
export function lanLinks(nameOf: NamespaceNamer): readonly string[] {
  return [
    "link add br0 type bridge",
    "link set br0 up",
    ...hostNames.flatMap((host) => [
      `link add v-${host} type veth peer name eth0 netns ${nameOf(host)}`,
      `link set v-${host} master br0`,
      `link set v-${host} up`,
    ]),
  ];
}

/**
 * Lines for the node: its addresses, a link to each pod, routes. Run after {@link lanLinks}, before
 * {@link podLinks}.
 */
export function nodeLinks(nameOf: NamespaceNamer): readonly string[] {
  const gateway = addressesOf("ext");
  return [
    ...hostAddresses("node"),
    `addr add ${nodeSecondAddress}/32 dev eth0`,
    ...podNames.flatMap((pod) => podLink(pod, nameOf(pod))),
    ...remotePodRanges.map((range) => route(range, addressesOf("node2"))),
    `route add default via ${gateway.v4}`,
    `route add default via ${gateway.v6}`,
  ];
}

function podLink(pod: PodName, namespace: string): readonly string[] {
  const { v4, v6 } = addressesOf(pod);
  return [
    `link add ${pod} type veth peer name eth0 netns ${namespace}`,
    `link set ${pod} up`,
    `addr add ${podGateway.v4}/32 dev ${pod}`,
    `addr add ${podGateway.v6}/64 dev ${pod} nodad`,
    `route add ${v4}/32 dev ${pod}`,
    `route add ${v6}/128 dev ${pod}`,
  ];
}

/**
 * Lines for a pod: one address for each family, and a default route to the gateway, as CNI plugins that route
 * do.
 */
export function podLinks(pod: PodName): readonly string[] {
  const { v4, v6 } = addressesOf(pod);
  return [
    "link set lo up",
    `addr add ${v4}/32 dev eth0`,
    `addr add ${v6}/128 dev eth0 nodad`,
    "link set eth0 up",
    `route add ${podGateway.v4} dev eth0`,
    `route add default via ${podGateway.v4}`,
    `route add default via ${podGateway.v6} dev eth0`,
  ];
}

/** Lines for the outside client: two addresses for each family, and routes to everything behind the nodes. */
export function extLinks(): readonly string[] {
  const { v4, v6 } = addressesOf("ext2");
  return [
    ...hostAddresses("ext"),
    `addr add ${v4}/24 dev eth0`,
    `addr add ${v6}/64 dev eth0 nodad`,
    ...remotePodRanges.map((range) => route(range, addressesOf("node2"))),
    ...routesToNode(),
  ];
}

/** Lines for the second node, which holds the pods of all other nodes on its loopback interface. */
export function node2Links(): readonly string[] {
  return [
    ...hostAddresses("node2"),
    ...remotePods.flatMap(({ v4, v6 }) => [`addr add ${v4}/32 dev lo`, `addr add ${v6}/128 dev lo nodad`]),
    ...routesToNode(),
  ];
}

function hostAddresses(host: HostName): readonly string[] {
  const { v4, v6 } = addressesOf(host);
  return [
    "link set lo up",
    `addr add ${v4}/24 dev eth0`,
    `addr add ${v6}/64 dev eth0 nodad`,
    "link set eth0 up",
  ];
}

function routesToNode(): readonly string[] {
  return [...ownPodRanges, ...virtualRanges].map((range) => route(range, addressesOf("node")));
}

function route(range: string, via: AddressPair): string {
  return `route add ${range} via ${range.includes(":") ? via.v6 : via.v4}`;
}
