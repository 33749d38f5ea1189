import { formatIPv6 } from "../../base/ipv6.ts";

/** The fields of a Service that determine its cluster IPs. */
interface Unassigned {
  readonly metadata?: Fields<"namespace" | "name">;
  readonly spec?: Fields<"type" | "clusterIP" | "clusterIPs" | "ipFamilies" | "ipFamilyPolicy">;
}

type Fields<Name extends string> = Readonly<Partial<Record<Name, unknown>>>;

/**
 * Number of placeholders. They are in 198.18.0.0/15 and 2001:2::/48, which are reserved for benchmarks and
 * used by no host. Source: https://www.rfc-editor.org/rfc/rfc2544, https://www.rfc-editor.org/rfc/rfc5180
 */
const MOST = 2 ** 17;

/**
 * Assigns placeholder cluster IPs to the Services of manifests, to which no API server has assigned any. A
 * placeholder is derived from the Service's name, so that it rarely differs between two versions of the
 * manifests.
 */
export class PlaceholderAddresses {
  readonly #taken = new Set<number>();

  get count(): number {
    return this.#taken.size;
  }

  /** Returns the Service with cluster IPs; unchanged if it has some, or must not have any. */
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
    !clusterIP &&
    (clusterIPs === undefined || clusterIPs === null || (Array.isArray(clusterIPs) && !clusterIPs[0]))
  );
}

function familiesOf({ ipFamilies, ipFamilyPolicy }: NonNullable<Unassigned["spec"]>): readonly unknown[] {
  if (Array.isArray(ipFamilies) && ipFamilies.length > 0) return ipFamilies;
  return ["PreferDualStack", "RequireDualStack"].includes(String(ipFamilyPolicy))
    ? ["IPv4", "IPv6"]
    : ["IPv4"];
}

function ipv4(number: number): string {
  return `198.${18 + (number >> 16)}.${(number >> 8) & 255}.${number & 255}`;
}

function ipv6(number: number): string {
  return formatIPv6([0x2001, 2, 0, 0, 0, 1, number >> 16, number & 0xffff]);
}
