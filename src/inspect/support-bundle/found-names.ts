import type { ArchiveFile } from "./archive.ts";
import type { NamesByKind } from "./redact.ts";

/** A DNS label with a letter, and a DNS subdomain with one: numbers beside a slash are no names. */
const LABEL = "(?=[\\d-]*[a-z])[a-z\\d][a-z\\d-]*";
const SUBDOMAIN = "(?=[\\d.-]*[a-z])[a-z\\d](?:[a-z\\d.-]*[a-z\\d])?";

/** `shop/cart`, `shop/cart:http/tcp`; not a part of a path. */
const QUALIFIED = new RegExp(`(?<![\\w./:-])(${LABEL})/(${SUBDOMAIN})(?::([a-z\\d-]*)/(?:tcp|udp|sctp))?`, "g");

/** The hash of source ranges, in the names of their chain and set: whoever has it can try which addresses give it. */
const RANGES = /\b(?:firewall|source-ranges)-([\da-f]{20})\b/g;

/** A label of a metric. */
const METRIC_LABEL = /\b(namespace|service|port)="([^"]*)"/g;

/** `node=worker-1` and `"node":"worker-1"`. */
const NODE = /\bnode(?:=|":")([\w.-]+)/g;

/** `nearest=["worker-1","worker-2"]`, as the log names Nodes beside one that is missing. */
const NEAREST_NODES = /\bnearest"?[=:]\[([^\]]*)\]/g;

/** Hosts in URLs, in errors of name resolution and of certificates, and in the metrics of requests. */
const HOSTS = [
  /https?:\/\/([a-z][\w.-]*)/gi,
  /\bgetaddrinfo \w+ ([\w.-]+)/g,
  /\bDNS:([\w.*-]+)/g,
  /\bhost="([a-z][^":]*)/gi,
];

/**
 * The names in the files of a support bundle, which the cluster's objects may not have: those of deleted objects in the log,
 * and all where no daemon answers.
 */
export function foundNames(files: readonly ArchiveFile[]): NamesByKind {
  const found: Record<string, string[]> = { namespace: [], service: [], port: [], node: [], host: [], ranges: [] };
  const add = (kind: string, name = "") => found[kind]?.push(name);
  for (const { name: file, text } of files) {
    if (file.endsWith("/daemon.log") || file.endsWith("/state.json")) addLogNames(text, add);
    for (const [, hash] of text.matchAll(RANGES)) add("ranges", hash);
    for (const [, kind = "", name] of text.matchAll(METRIC_LABEL)) add(kind, name);
    for (const pattern of HOSTS) for (const [, host] of text.matchAll(pattern)) add("host", host);
  }
  return found;
}

function addLogNames(text: string, add: (kind: string, name?: string) => void): void {
  for (const [, namespace, service, port] of text.matchAll(QUALIFIED)) {
    add("namespace", namespace);
    add("service", service);
    add("port", port);
  }
  for (const [, node] of text.matchAll(NODE)) add("node", node);
  for (const [, names = ""] of text.matchAll(NEAREST_NODES)) {
    for (const [, node] of names.matchAll(/"([^"]+)"/g)) add("node", node);
  }
}
