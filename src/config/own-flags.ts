import { commanding, type Flag, overriding } from "./flag.ts";

/** The flags that kube-proxy does not have. They win over the configuration file's section `nftProxy`. */
export const OWN_FLAGS: readonly Flag[] = [
  overriding(
    "affinity-map-size",
    "integer",
    "nftProxy.affinityMapSize",
    "The most clients that session affinity remembers, for each family",
  ),
  overriding(
    "config-change",
    "string",
    "nftProxy.configChange",
    "When the configuration file changes: reload what is safe, or exit",
  ),
  {
    ...commanding(
      "output",
      "string",
      "How to print what was found: text, json for scripts, or of check github (workflow commands)",
    ),
    alias: "o",
  },
  commanding("format", "string", "Print json (for nft -j -f -), or nft: text as nft prints it, commented"),
  commanding("service", "string", "A Service, or one port of it: namespace/name or namespace/name:port"),
  commanding("family", "string", "Only this address family: ip or ip6"),
  commanding("against", "path-list", "Compare with these files and directories in place of this node's kernel"),
  commanding("defaults", "boolean", "The configuration of no flags and no file"),
  commanding("validate", "string", "Say whether this configuration file can be used, and what of it is ignored"),
  commanding("diff", "boolean", "Only what would have to change in this node's kernel"),
  commanding("strict", "boolean", "Take warnings for faults"),
  commanding("dry-run", "boolean", "Apply nothing, log what would be applied"),
  commanding("kube-proxy", "boolean", "Remove the tables of kube-proxy's nftables mode, and leave ours"),
  commanding("client", "string", "Only this client address; of trace its packets and, without --to, those to it"),
  commanding("draining", "boolean", "Only connections to endpoints that terminate or are in no EndpointSlice any more"),
  commanding("duration", "duration", "How long to trace; 30s if not given"),
  commanding("rate", "integer", "The most packets to trace a second, for each address family; 5 if not given"),
  commanding("from-ip", "string", "The address that the connection comes from; tells what --source would say"),
  commanding("live", "boolean", "Follow the kernel's own rules, and say where they are not as the objects ask"),
  commanding("port", "integer", "The port that the connection goes to"),
  commanding("proto", "string", "tcp, udp or sctp; tcp if not given"),
  commanding("source", "string", "Where the connection comes from: pod (of this node), node (itself) or outside"),
  commanding("to", "string", "The address that the connection goes to"),
  commanding("from", "path-list", "Take the objects from these files and directories in place of a cluster"),
  overriding(
    "full-resync-period",
    "duration",
    "nftProxy.fullResyncPeriod",
    "Time between two comparisons of everything with the kernel",
  ),
  overriding("nft-path", "string", "nftProxy.nftPath", "The nft program: a path, or a name to look for"),
  overriding(
    "service-counters",
    "string",
    "nftProxy.serviceCounters",
    "Count new connections: off, by services, or by endpoints too",
  ),
];
