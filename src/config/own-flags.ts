import { commanding, type Flag, overriding } from "./flag.ts";

/** The flags that kube-proxy does not have. They win over the configuration file's section `nftProxy`. */
export const OWN_FLAGS: readonly Flag[] = [
  overriding(
    "affinity-map-size",
    "integer",
    "nftProxy.affinityMapSize",
    "Maximum of clients that session affinity remembers, for each family",
  ),
  overriding(
    "config-change",
    "string",
    "nftProxy.configChange",
    "Reaction to a changed configuration file: reload what is safe, or exit",
  ),
  overriding(
    "daemon-socket",
    "string",
    "nftProxy.daemonSocket",
    "The Unix socket on which the daemon answers the other commands; empty for none",
  ),
  {
    ...commanding(
      "output",
      "string",
      "Output format: text, json for scripts, or github (workflow commands, check only)",
    ),
    alias: "o",
  },
  commanding(
    "format",
    "string",
    "Format of the dump: json (for nft -j -f -), or nft (nft's text syntax with comments)",
  ),
  commanding("service", "string", "A Service, or one port of it: namespace/name or namespace/name:port"),
  commanding("family", "string", "Only this address family: ip or ip6"),
  commanding("against", "path-list", "Compare with these files and directories instead of this node's kernel"),
  commanding("defaults", "boolean", "Print the default configuration, ignoring flags and files"),
  commanding("validate", "string", "Check this configuration file, and print which of its fields are ignored"),
  commanding("diff", "boolean", "Print only the changes to this node's kernel"),
  commanding("strict", "boolean", "Treat warnings as errors"),
  commanding("dry-run", "boolean", "Apply nothing, and log what would be applied"),
  commanding("kube-proxy", "boolean", "Remove the tables of kube-proxy's nftables mode instead of nft-proxy's"),
  commanding("client", "string", "Only this client address; for trace, its packets and, without --to, those to it"),
  commanding("draining", "boolean", "Only connections to endpoints that terminate or are in no EndpointSlice any more"),
  commanding("duration", "duration", "Duration of the trace; 30s by default"),
  commanding("rate", "integer", "Maximum of traced packets a second, for each address family; 5 by default"),
  commanding("from-ip", "string", "Source address of the connection, from which --source is derived"),
  commanding("live", "boolean", "Follow the rules in the kernel, and report where they differ from the desired state"),
  commanding("port", "integer", "Destination port of the connection"),
  commanding("proto", "string", "Protocol of the connection: tcp (the default), udp or sctp"),
  commanding("source", "string", "Origin of the connection: pod (of this node), node (itself) or outside"),
  commanding("to", "string", "Destination address of the connection"),
  commanding("from", "path-list", "Read the objects from these files and directories instead of a cluster"),
  overriding(
    "full-resync-period",
    "duration",
    "nftProxy.fullResyncPeriod",
    "Time between two full comparisons with the kernel",
  ),
  overriding("nft-path", "string", "nftProxy.nftPath", "The nft program: a path, or a name that is looked up in PATH"),
  overriding(
    "service-counters",
    "string",
    "nftProxy.serviceCounters",
    "Count new connections: off, services (per Service port) or endpoints (per endpoint, too)",
  ),
];
