import { CONFIG_FLAGS } from "../config/flags.ts";
import type { Flag, FlagType } from "../config/option.ts";
import { DIAGNOSTIC_CODES } from "../kube/decode/diagnostic-code.ts";

/** Returns a flag that kube-proxy does not have. @param alias its short form, one letter */
function commanding(name: string, type: FlagType, description: string, alias?: string): Flag {
  return { ...ofKubeProxy(name, type, description), ...(alias !== undefined && { alias }), isOwn: true };
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
  commanding(
    "output",
    "string",
    "Output format: text, json or yaml; of check and diff also github (workflow commands); of dump json (for nft -j -f -) or nft",
    "o",
  ),
  commanding("service", "string", "A Service or one of its ports: namespace/name or namespace/name:port"),
  commanding(
    "namespace",
    "string",
    "Namespace of a Service that is named without one; for refusals, only its Services; for fleet, that of the pods",
    "n",
  ),
  commanding("all", "boolean", "Explain every frontend of every Service, or of one namespace (--namespace)"),
  commanding(
    "problems",
    "boolean",
    "Show only frontends that are refused, dropped or lost to another Service",
  ),
  commanding("exit-code", "boolean", "Exit with 1 when a connection is refused or dropped"),
  { ...commanding("family", "string", "Only this address family: ip or ip6"), values: ["ip", "ip6"] },
  commanding(
    "against",
    "path-list",
    "Compare with these files and directories instead of this node's kernel",
  ),
  {
    ...commanding(
      "with",
      "string",
      "Compare the outcomes of connections with those under the tables of: kube-proxy",
    ),
    values: ["kube-proxy"],
  },
  commanding(
    "with-tables",
    "path-list",
    "Read kube-proxy's tables from these files, made by: nft -j list table ip kube-proxy",
  ),
  commanding("outcomes", "boolean", "Compare the outcomes of connections instead of rules"),
  commanding("with-objects", "path-list", "Files and directories of the new objects, for --outcomes"),
  commanding(
    "fail-on",
    "string",
    "Exit with 1 only for these changes of outcomes: refused, dropped, not-handled, endpoints, ...",
  ),
  {
    ...commanding(
      "exclude",
      "list",
      "Diagnostics that are not reported: codes (docs/checks.md), or objects as KIND/NAMESPACE/NAME",
    ),
    values: DIAGNOSTIC_CODES,
  },
  commanding("defaults", "boolean", "Print the default configuration; ignore flags and files"),
  commanding("validate", "string", "Check this configuration file, and list its ignored fields"),
  commanding("diff", "boolean", "Print only the changes to this node's kernel"),
  commanding("strict", "boolean", "Treat warnings as errors"),
  commanding(
    "no-strict",
    "boolean",
    "Report unknown fields, and objects that only the API server rejects, as warnings",
  ),
  commanding("migration", "boolean", "Also list what changes for clients when nft-proxy replaces kube-proxy"),
  commanding("dry-run", "boolean", "Change nothing, and show the changes"),
  commanding("selector", "string", "Label selector of the pods; app.kubernetes.io/name=nft-proxy by default"),
  commanding("wait", "boolean", "Wait until every node is healthy, for at most 10 minutes"),
  commanding("redact", "boolean", "Replace names and addresses with pseudonyms"),
  commanding("force", "boolean", "Change the rules even while a daemon runs, which will undo the change"),
  commanding(
    "kube-proxy",
    "boolean",
    "Remove the tables of kube-proxy's nftables mode instead of nft-proxy's",
  ),
  commanding(
    "client",
    "string",
    "Only this client address; for trace, also packets to it unless --to is given",
  ),
  commanding(
    "draining",
    "boolean",
    "Only connections to endpoints that are terminating or no longer in any EndpointSlice",
  ),
  commanding("duration", "duration", "Duration of the trace; 30s by default"),
  commanding("watch", "boolean", "Keep running and print each new refusal"),
  commanding(
    "rate",
    "integer",
    "Maximum number of traced packets per second and address family; 5 by default",
  ),
  commanding("from-ip", "string", "Source address of the connection, from which --source is derived"),
  commanding(
    "live",
    "boolean",
    "Follow the rules in the kernel, and report where they differ from the desired state",
  ),
  commanding("port", "integer", "Destination port of the connection"),
  {
    ...commanding("proto", "string", "Protocol of the connection: tcp (the default), udp or sctp"),
    values: ["tcp", "udp", "sctp"],
  },
  {
    ...commanding(
      "source",
      "string",
      "Origin of the connection: pod (of this node), node (itself) or outside",
    ),
    values: ["pod", "node", "outside"],
  },
  commanding("to", "string", "Destination address of the connection"),
  commanding(
    "from",
    "path-list",
    "Read the objects from these files and directories (- for standard input)",
    "f",
  ),
];

/** The flags that the parser handles before a command runs. */
const PARSER_FLAGS: readonly Flag[] = [
  { name: "help", alias: "h", type: "boolean", description: "Show this help", target: { kind: "parser" } },
  {
    name: "help-all",
    type: "boolean",
    description: "Show this help with every option",
    target: { kind: "parser" },
    isOwn: true,
  },
  { name: "version", type: "boolean", description: "Show the version", target: { kind: "parser" } },
];

/** All flags, sorted by name. */
export const FLAGS: readonly Flag[] = [...CONFIG_FLAGS, ...COMMAND_FLAGS, ...PARSER_FLAGS].sort((a, b) =>
  a.name < b.name ? -1 : 1,
);
