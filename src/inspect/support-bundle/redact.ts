import { canonicalAddress, familyOf, isLoopback, isUnspecified } from "../../model/ip.ts";

/** Names by their kind, which stands in the pseudonyms. */
export type NamesByKind = Readonly<Record<string, readonly string[]>>;

/** Names that every cluster has, and words of nft-proxy's own formats: redacting them would tell nothing and hide much. */
const PUBLIC: ReadonlySet<string> = new Set([
  ...["default", "kube-system", "kube-public", "kubernetes", "kube-dns", "node", "service", "services", "endpoints"],
  ...["nft-proxy", "localhost", "name", "namespace", "port", "ports", "http", "https", "tcp", "udp", "sctp"],
  ...["ip", "ip6", "chain", "map", "set", "true", "false", "null"],
]);

/**
 * An IPv4 address, also at the end of an IPv6 address, or text that may be an IPv6 address, also with a port as Node prints
 * it: `fd00::1:32020`. {@link addressPseudonym} decides.
 */
const ADDRESS = /(?<![\w:.])[\da-f]*(?::[\da-f]*){2,}(?![\w:]|\.\d)|\b\d{1,3}(?:\.\d{1,3}){3}\b/gi;

/**
 * A function that replaces names and addresses in texts by pseudonyms, the same one for the same name in every text:
 * `service-3`, `ip4-12`. Loopback and unspecified addresses, names that every cluster has, and numbers stay.
 */
export function redactor(names: NamesByKind): (text: string) => string {
  const pseudonyms = new Map<string, string>();
  for (const [kind, list] of Object.entries(names)) {
    const hidden = [...new Set(list)].filter(isTelling).sort();
    for (const [index, name] of hidden.entries())
      if (!pseudonyms.has(name)) pseudonyms.set(name, `${kind}-${index + 1}`);
  }
  const addresses = new Map<string, string>();
  const pattern = namesPattern([...pseudonyms.keys()]);
  return (text) => {
    // Addresses first: a short name may stand between the colons of one.
    const redacted = text.replace(ADDRESS, (found) => addressPseudonym(found, addresses));
    return pattern === undefined ? redacted : redacted.replace(pattern, (name) => pseudonyms.get(name) ?? name);
  };
}

/** Whether a name tells something and can be replaced: a single letter may be a unit, a number a value of JSON. */
function isTelling(name: string): boolean {
  return name.length > 1 && /[a-z]/i.test(name) && !PUBLIC.has(name);
}

/** The longest name first, so that no name is replaced within another. Keys of JSON objects are no names. */
function namesPattern(names: readonly string[]): RegExp | undefined {
  if (names.length === 0) return undefined;
  const sorted = [...names].sort((a, b) => b.length - a.length);
  const escaped = sorted.map((name) => name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`(?<=firewall-|source-ranges-|(?<![\\w-]))(?:${escaped.join("|")})(?![\\w-]|"\\s*:)`, "g");
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
  return numbered(familyOf(address) === "ip" ? "ip4" : "ip6", address, known);
}

function numbered(kind: string, value: string, known: Map<string, string>): string {
  const pseudonym = known.get(value) ?? `${kind}-${known.size + 1}`;
  known.set(value, pseudonym);
  return pseudonym;
}
