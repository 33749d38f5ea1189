import { groupBy } from "../../base/group-by.ts";
import { canonicalAddress, familyOf, isLoopback, isUnspecified } from "../../model/ip.ts";

/** Names by kind, which is part of the pseudonyms. */
export type NamesByKind = Readonly<Record<string, readonly string[]>>;

/** A text file of a support bundle. */
export interface BundleFile {
  /** Relative, at most 100 bytes of ASCII. */
  readonly name: string;
  readonly text: string;
}

/** A DNS label and a DNS subdomain with at least one letter: numbers next to a slash are not names. */
const LABEL = "(?=[\\d-]*[a-z])[a-z\\d][a-z\\d-]*";
const SUBDOMAIN = "(?=[\\d.-]*[a-z])[a-z\\d](?:[a-z\\d.-]*[a-z\\d])?";

/** `shop/cart`, `shop/cart:http/tcp`; not part of a path. */
const QUALIFIED = new RegExp(
  `(?<![\\w./:-])(${LABEL})/(${SUBDOMAIN})(?::([a-z\\d-]*)/(?:tcp|udp|sctp))?`,
  "g",
);

/** A label of a metric. */
const METRIC_LABEL = /\b(namespace|service|port)="([^"]*)"/g;

/** `node=worker-1` and `"node":"worker-1"`. */
const NODE = /\bnode(?:=|":")([\w.-]+)/g;

/** `nearest=["worker-1","worker-2"]`: names in the log that are similar to a missing Node. */
const NEAREST_NODES = /\bnearest"?[=:]\[([^\]]*)\]/g;

/** Hosts in URLs, in errors about name resolution and certificates, and in metrics of requests. */
const HOSTS = [
  /https?:\/\/([a-z][\w.-]*)/gi,
  /\bgetaddrinfo \w+ ([\w.-]+)/g,
  /\bDNS:([\w.*-]+)/g,
  /\bhost="([a-z][^":]*)/gi,
];

/**
 * Finds names in the files of a support bundle that the cluster's objects may not have: those of deleted
 * objects in the log, and all names if no daemon answers.
 */
export function foundNames(files: Iterable<BundleFile>): NamesByKind {
  const found: Record<string, string[]> = { namespace: [], service: [], port: [], node: [], host: [] };
  const add = (kind: string, name = "") => found[kind]?.push(name);
  for (const { name: file, text } of files) {
    if (SENTENCES.some((end) => file.endsWith(end))) addLogNames(text, add);
    for (const [, kind = "", name] of text.matchAll(METRIC_LABEL)) add(kind, name);
    for (const pattern of HOSTS) for (const [, host] of text.matchAll(pattern)) add("host", host);
  }
  return found;
}

/** The files with sentences about Services and nodes. */
const SENTENCES = ["/daemon.log", "/state.json", "/livez.json", "/fleet.json"];

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

/**
 * Names that every cluster has, and words of nft-proxy's own formats. Redacting them would protect nothing
 * and hide much.
 */
const PUBLIC: ReadonlySet<string> = new Set([
  ...["default", "kube-system", "kube-public", "kubernetes", "kube-dns"],
  ...["node", "service", "services", "endpoints"],
  ...["nft-proxy", "localhost", "name", "namespace", "port", "ports", "http", "https", "tcp", "udp", "sctp"],
  ...["ip", "ip6", "chain", "map", "set", "true", "false", "null"],
]);

/**
 * An IPv4 address, also at the end of an IPv6 address; or text that may be an IPv6 address, also with a port
 * as Node prints it: `fd00::1:32020`. {@link addressPseudonym} decides. The version of socat also has four
 * numbers, and is kept.
 */
const ADDRESS =
  /(?<![\w:.])[\da-f]*(?::[\da-f]*){2,}(?![\w:]|\.\d)|(?<!\bsocat\W{1,4})\b\d{1,3}(?:\.\d{1,3}){3}\b/gi;

/**
 * Returns a function that replaces names and addresses in texts with pseudonyms, always the same for a name:
 * `service-3`, `ip4-12`. A name that several kinds share gets the one of the first kind. Keeps loopback and
 * unspecified addresses, names that every cluster has, and numbers.
 */
export function redactor(...sources: readonly NamesByKind[]): (text: string) => string {
  const pseudonyms = new Map<string, string>();
  const kinds = groupBy(
    sources.flatMap((names) => Object.entries(names)),
    ([kind]) => kind,
  );
  for (const [kind, lists] of kinds) {
    const hidden = [...new Set(lists.flatMap(([, list]) => list))].filter(isTelling).sort();
    for (const [index, name] of hidden.entries())
      if (!pseudonyms.has(name)) pseudonyms.set(name, `${kind}-${index + 1}`);
  }
  const addresses = new Map<string, string>();
  const pattern = namesPattern([...pseudonyms.keys()]);
  return (text) => {
    // Addresses first, because a short name may occur between the colons of one.
    const redacted = text.replace(ADDRESS, (found) => addressPseudonym(found, addresses));
    return pattern === undefined
      ? redacted
      : redacted.replace(pattern, (name) => pseudonyms.get(name) ?? name);
  };
}

/** Whether a name must and can be replaced: a single letter may be a unit, a number a value of JSON. */
function isTelling(name: string): boolean {
  return name.length > 1 && /[a-z]/i.test(name) && !PUBLIC.has(name);
}

/**
 * The longest name comes first, so that no name is replaced inside another. Keys of JSON objects are not
 * names.
 */
function namesPattern(names: readonly string[]): RegExp | undefined {
  if (names.length === 0) return undefined;
  const sorted = [...names].sort((a, b) => b.length - a.length);
  const escaped = sorted.map((name) => name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`(?<![\\w-])(?:${escaped.join("|")})(?![\\w-]|"\\s*:)`, "g");
}

function addressPseudonym(found: string, known: Map<string, string>): string {
  const address = canonicalAddress(found);
  if (address === undefined) {
    const [whole, front = "", port] = /^(.*:.*)(:\d*)$/.exec(found) ?? [];
    return whole === undefined || canonicalAddress(front) === undefined
      ? found
      : `${addressPseudonym(front, known)}${port}`;
  }
  if (isLoopback(address) || isUnspecified(address)) return found;
  const kind = familyOf(address) === "ip" ? "ip4" : "ip6";
  const pseudonym = known.get(address) ?? `${kind}-${known.size + 1}`;
  known.set(address, pseudonym);
  return pseudonym;
}
