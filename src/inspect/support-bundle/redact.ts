import { canonicalAddress, familyOf, isLoopback, isUnspecified } from "../../model/ip.ts";

/** Names by their kind, which stands in the pseudonyms. */
export type NamesByKind = Readonly<Record<string, readonly string[]>>;

/** Names that every cluster has, and words of nft-proxy's own formats: redacting them would tell nothing and hide much. */
const PUBLIC: ReadonlySet<string> = new Set([
  ...["default", "kube-system", "kube-public", "kubernetes", "kube-dns", "node", "service", "services", "endpoints"],
  ...["name", "namespace", "port", "ports", "http", "https", "tcp", "udp", "sctp", "ip", "ip6", "chain", "map", "set"],
]);

/** An IPv4 address, or text that may be an IPv6 address; {@link canonicalAddress} decides. */
const ADDRESS = /\b\d{1,3}(?:\.\d{1,3}){3}\b|(?<![\w:])[\da-f]{0,4}(?::[\da-f]{0,4}){2,7}(?![\w:])/gi;

/** A host of a URL, as of the API server. */
const URL_HOST = /(https?:\/\/)([a-z][\w.-]*)/gi;

/**
 * A function that replaces names and addresses in texts by pseudonyms, the same one for the same name in every text:
 * `service-3`, `ip4-12`. Loopback and unspecified addresses, and names that every cluster has, stay.
 */
export function redactor(names: NamesByKind): (text: string) => string {
  const pseudonyms = new Map<string, string>();
  for (const [kind, list] of Object.entries(names)) {
    const hidden = [...new Set(list)].filter((name) => name !== "" && !PUBLIC.has(name)).sort();
    for (const [index, name] of hidden.entries())
      if (!pseudonyms.has(name)) pseudonyms.set(name, `${kind}-${index + 1}`);
  }
  const addresses = new Map<string, string>();
  const hosts = new Map<string, string>();
  const pattern = namesPattern([...pseudonyms.keys()]);
  return (text) => {
    const named = pattern === undefined ? text : text.replace(pattern, (name) => pseudonyms.get(name) ?? name);
    return named
      .replace(ADDRESS, (found) => addressPseudonym(found, addresses))
      .replace(URL_HOST, (_found, scheme: string, host: string) => `${scheme}${numbered("host", host, hosts)}`);
  };
}

/** The longest name first, so that no name is replaced within another. */
function namesPattern(names: readonly string[]): RegExp | undefined {
  if (names.length === 0) return undefined;
  const sorted = [...names].sort((a, b) => b.length - a.length);
  const escaped = sorted.map((name) => name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`(?<=firewall-|(?<![\\w-]))(?:${escaped.join("|")})(?![\\w-])`, "g");
}

function addressPseudonym(found: string, known: Map<string, string>): string {
  const address = canonicalAddress(found);
  if (address === undefined || isLoopback(address) || isUnspecified(address)) return found;
  return numbered(familyOf(address) === "ip" ? "ip4" : "ip6", address, known);
}

function numbered(kind: string, value: string, known: Map<string, string>): string {
  const pseudonym = known.get(value) ?? `${kind}-${known.size + 1}`;
  known.set(value, pseudonym);
  return pseudonym;
}
