import type { Flag, FlagType } from "../base/option.ts";
import { CONFIG_FLAGS } from "../config/flags.ts";
import { FEATURES } from "../features/registry.ts";
import { DIAGNOSTIC_CODES } from "../kube/decode/diagnostic-code.ts";

/** Returns a flag that kube-proxy does not have. */
function own(
  name: string,
  type: FlagType,
  description: string,
  more: Pick<Flag, "alias" | "values"> = {},
): Flag {
  return { ...ofKubeProxy(name, type, description), ...more, isOwn: true };
}

function boolean(name: string, description: string): Flag {
  return own(name, "boolean", description);
}

function ofKubeProxy(name: string, type: FlagType, description: string): Flag {
  return { name, type, description, target: { kind: "command" } };
}

/** The flags of commands. They are not part of the configuration. */
const COMMAND_FLAGS: readonly Flag[] = [
  ofKubeProxy("cleanup", "boolean", "Remove nft-proxy's tables and exit"),
  ofKubeProxy("config", "string", "File with a KubeProxyConfiguration, which overrides most flags"),
  ofKubeProxy("init-only", "boolean", "Set up the host, which needs full root privileges, and exit"),
  ofKubeProxy("write-config-to", "string", "Write the effective configuration to this file and exit"),
  own(
    "output",
    "string",
    "Output format: text, json or yaml; of check and diff also github (workflow commands); of dump json (for nft -j -f -) or nft",
    { alias: "o" },
  ),
  own("service", "string", "A Service or one of its ports: namespace/name or namespace/name:port"),
  own(
    "namespace",
    "string",
    "Namespace of a Service that is named without one; for refusals, only its Services; for fleet, that of the pods",
    { alias: "n" },
  ),
  boolean("all", "Explain every frontend of every Service, or of one namespace (--namespace)"),
  boolean("problems", "Show only frontends that are refused, dropped or lost to another Service"),
  boolean("exit-code", "Exit with 1 when a connection is refused or dropped"),
  own("family", "string", "Only this address family: ip or ip6", { values: ["ip", "ip6"] }),
  own("against", "path-list", "Compare with these files and directories instead of this node's kernel"),
  own("with", "string", "Compare the outcomes of connections with those under the tables of: kube-proxy", {
    values: ["kube-proxy"],
  }),
  own(
    "with-tables",
    "path-list",
    "Read kube-proxy's tables from these files, made by: nft -j list table ip kube-proxy",
  ),
  boolean("outcomes", "Compare the outcomes of connections instead of rules"),
  own("with-objects", "path-list", "Files and directories of the new objects, for --outcomes"),
  own(
    "fail-on",
    "string",
    "Exit with 1 only for these changes of outcomes: refused, dropped, not-handled, endpoints, ...",
  ),
  own(
    "exclude",
    "list",
    "Diagnostics that are not reported: codes (docs/checks.md), or objects as KIND/NAMESPACE/NAME",
    { values: DIAGNOSTIC_CODES },
  ),
  boolean("defaults", "Print the default configuration; ignore flags and files"),
  own("validate", "string", "Check this configuration file, and list its ignored fields"),
  boolean("diff", "Print only the changes to this node's kernel"),
  boolean("strict", "Treat warnings as errors"),
  boolean("no-strict", "Report unknown fields, and objects that only the API server rejects, as warnings"),
  boolean("migration", "Also list what changes for clients when nft-proxy replaces kube-proxy"),
  boolean("dry-run", "Change nothing, and show what would change"),
  own("context", "string", "Context of the kubeconfig; its current one by default"),
  own("selector", "string", "Label selector of the pods; app.kubernetes.io/name=nft-proxy by default", {
    alias: "l",
  }),
  boolean("wait", "Wait until every node that the DaemonSet selects is healthy, for at most 10 minutes"),
  boolean("cluster", "Collect from the pods of all nodes, through the API server"),
  boolean("redact", "Replace names and addresses with pseudonyms"),
  boolean("force", "Change the rules even while a daemon runs, which will undo the change"),
  boolean("kube-proxy", "Remove the tables of kube-proxy's nftables mode instead of nft-proxy's"),
  own("client", "string", "Only this client address; for trace, also packets to it unless --to is given"),
  boolean("draining", "Only connections to endpoints that are terminating or no longer in any EndpointSlice"),
  own("duration", "duration", "Duration of the trace; 30s by default"),
  boolean("watch", "Keep running and print each new refusal"),
  own(
    "rate",
    "integer",
    "Maximum number of results a second; for trace, of packets of each address family, 5 by default",
  ),
  own("from-ip", "string", "Source address of the connection, from which --source is derived"),
  boolean("live", "Follow the rules in the kernel, and report where they differ from the desired state"),
  own("port", "integer", "Destination port of the connection"),
  own("proto", "string", "Protocol of the connection: tcp (the default), udp or sctp; for trace also icmp", {
    values: ["tcp", "udp", "sctp"],
  }),
  own("source", "string", "Origin of the connection: pod (of this node), node (itself) or outside", {
    values: ["pod", "node", "outside"],
  }),
  own("to", "string", "Destination address of the connection"),
  own("from", "path-list", "Read the objects from these files and directories (- for standard input)", {
    alias: "f",
  }),
];

/** The flags that the parser handles before a command runs. */
const PARSER_FLAGS: readonly Flag[] = [
  { ...ofKubeProxy("help", "boolean", "Show this help"), alias: "h" },
  boolean("help-all", "Show this help with every option"),
  ofKubeProxy("version", "boolean", "Show the version"),
].map((flag) => ({ ...flag, target: { kind: "parser" } }));

/** All flags, sorted by name. */
export const FLAGS: readonly Flag[] = [
  ...CONFIG_FLAGS,
  ...COMMAND_FLAGS,
  ...FEATURES.flatMap(({ command }) => command?.flags ?? []),
  ...PARSER_FLAGS,
].sort((a, b) => (a.name < b.name ? -1 : 1));
