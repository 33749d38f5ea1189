/**
 * The sets and maps of a table. A frontend is an address, protocol and port (see keys.ts). A list id is a
 * number that represents the endpoints of a service port (see list-ids.ts).
 */
/** Frontend to list id. */
export const LISTS = "lists";
/** List id to the chain that balances over the list. */
export const BALANCERS = "balancers";
/** List id and number to endpoint; with session affinity, endpoint id and 0 or 1 to endpoint. */
export const ENDPOINTS = "endpoints";
/** With session affinity: list id and number to endpoint id. */
export const AFFINITY_IDS = "affinity-ids";
/** With session affinity: list id to the chain that draws one of its numbers. */
export const AFFINITY_CHOOSERS = "affinity-choosers";
/** With session affinity: the id of clients' entries to the chain that remembers clients for a time. */
export const AFFINITY_TIMEOUTS = "affinity-timeouts";
/** Service port id and client to endpoint id; filled by packets. */
export const AFFINITY = "affinity-clients";
/** Frontend to reject or drop. */
export const NO_ENDPOINTS = "no-endpoint-services";
/** Frontend to the number of the list of source ranges that restricts it. */
export const SOURCE_RANGE_LISTS = "source-range-lists";
/** Prefixes of sources that a list allows: address, number of the list and length. */
export const SOURCE_RANGES = "source-ranges";
/** The protocols that have ports: constant. */
export const PORT_PROTOCOLS = "port-protocols";
/** Every cluster IP. */
export const CLUSTER_IPS = "cluster-ips";
/** The node's addresses that serve NodePorts. */
export const NODEPORT_IPS = "nodeport-ips";
/** Connections of an endpoint to itself: its address twice, protocol and port. */
export const HAIRPIN_CONNECTIONS = "hairpin-connections";
