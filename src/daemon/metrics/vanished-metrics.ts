import { Counter, type Registry } from "prom-client";
import { type ByFamily, FAMILIES, FAMILY_NAMES } from "../../base/family.ts";
import { type CachedReadingOptions, cachedReading } from "./cached-reading.ts";

/** Packets that the rules answered with a TCP reset; a family is absent where it is not programmed. */
export type ResetPackets = Partial<ByFamily<number>>;

/**
 * Adds `nft_proxy_reset_packets_total`: packets to endpoints that left every EndpointSlice, as the kernel counted them.
 * @returns the same reading for others who show it; never rejects
 */
export function addVanishedMetrics(
  registry: Registry,
  options: CachedReadingOptions<ResetPackets>,
): () => Promise<ResetPackets> {
  const packets = cachedReading<ResetPackets>({}, options);
  new Counter({
    name: "nft_proxy_reset_packets_total",
    help: "Packets to endpoints that left every EndpointSlice, answered with a TCP reset",
    labelNames: ["ip_family"],
    registers: [registry],
    async collect() {
      const read = await packets();
      this.reset();
      for (const family of FAMILIES) this.inc({ ip_family: FAMILY_NAMES[family] }, read[family] ?? 0);
    },
  });
  return packets;
}
