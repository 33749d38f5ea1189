/** An address family, named like nft's table family. */
export type Family = "ip" | "ip6";

/** Both families, in the order of all processing and output. */
export const FAMILIES: readonly Family[] = ["ip", "ip6"];

/** Names of the families for users, metrics and the API (core/v1 IPFamily). */
export const FAMILY_NAMES: ByFamily<"IPv4" | "IPv6"> = { ip: "IPv4", ip6: "IPv6" };

/** One value for each family. */
export type ByFamily<T> = Readonly<Record<Family, T>>;

/** Builds a value for each family. */
export function byFamily<T>(make: (family: Family) => T): Record<Family, T> {
  return { ip: make("ip"), ip6: make("ip6") };
}
