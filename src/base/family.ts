/** An address family, under the word nft has for its table family. */
export type Family = "ip" | "ip6";

/** Both families, in the order in which everything is done and printed. */
export const FAMILIES: readonly Family[] = ["ip", "ip6"];

/** The families as people, metrics and the API call them (core/v1 IPFamily). */
export const FAMILY_NAMES: ByFamily<"IPv4" | "IPv6"> = { ip: "IPv4", ip6: "IPv6" };

/** One value for each family. */
export type ByFamily<T> = Readonly<Record<Family, T>>;

/** Builds a value for each family. */
export function byFamily<T>(make: (family: Family) => T): Record<Family, T> {
  return { ip: make("ip"), ip6: make("ip6") };
}
