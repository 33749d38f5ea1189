import { formatIPv6 } from "../../base/ipv6.ts";

/** A Service as far as its cluster IPs depend on it. */
interface Unassigned {
  readonly metadata?: { readonly namespace?: unknown; readonly name?: unknown };
  readonly spec?: {
    readonly type?: unknown;
    readonly clusterIP?: unknown;
    readonly clusterIPs?: unknown;
    readonly ipFamilies?: unknown;
    readonly ipFamilyPolicy?: unknown;
  };
}

/** Addresses in 198.18.0.0/15 and 2001:2::/48, which nobody has: they are for benchmarks (RFC 2544, RFC 5180). */
const MOST = 2 ** 17;

/**
 * Gives Services of manifests, to which no API server has assigned cluster IPs yet, addresses to be checked with. A
 * Service's address depends on its name, so that it is mostly the same in another version of the manifests.
 */
export class PlaceholderAddresses {
  readonly #taken = new Set<number>();

  /** How many Services were given one. */
  get count(): number {
    return this.#taken.size;
  }

  /** The Service with cluster IPs; itself when it has them, or is not to have them. */
  fill(object: unknown): unknown {
    if (!lacksClusterIP(object)) return object;
    const { metadata, spec = {} } = object;
    const number = this.#numberFor(`${metadata?.namespace ?? "default"}/${metadata?.name}`);
    const clusterIPs = familiesOf(spec).map((family) => (family === "IPv6" ? ipv6(number) : ipv4(number)));
    return { ...object, spec: { ...spec, clusterIP: clusterIPs[0], clusterIPs } };
  }

  #numberFor(name: string): number {
    let hash = 0;
    for (let i = 0; i < name.length; i++) hash = (Math.imul(hash, 31) + name.charCodeAt(i)) >>> 0;
    let number = hash % MOST;
    while (this.#taken.has(number) && this.#taken.size < MOST) number = (number + 1) % MOST;
    this.#taken.add(number);
    return number;
  }
}

function lacksClusterIP(object: unknown): object is Unassigned {
  const { spec } = (object ?? {}) as Unassigned;
  if (typeof spec !== "object" || spec === null || spec.type === "ExternalName") return false;
  const { clusterIP, clusterIPs } = spec;
  return (
    !clusterIP && (clusterIPs === undefined || clusterIPs === null || (Array.isArray(clusterIPs) && !clusterIPs[0]))
  );
}

function familiesOf({ ipFamilies, ipFamilyPolicy }: NonNullable<Unassigned["spec"]>): readonly unknown[] {
  if (Array.isArray(ipFamilies) && ipFamilies.length > 0) return ipFamilies;
  return ["PreferDualStack", "RequireDualStack"].includes(String(ipFamilyPolicy)) ? ["IPv4", "IPv6"] : ["IPv4"];
}

function ipv4(number: number): string {
  return `198.${18 + (number >> 16)}.${(number >> 8) & 255}.${number & 255}`;
}

function ipv6(number: number): string {
  return formatIPv6([0x2001, 2, 0, 0, 0, 1, number >> 16, number & 0xffff]);
}
