/** On which of the node's addresses NodePorts and health checks answer. Loopback never does. */
export type NodePortAddresses =
  | { readonly kind: "all" }
  | { readonly kind: "addresses"; readonly addresses: readonly string[] };
