import { durationWords } from "../../base/duration.ts";
import { type ByFamily, FAMILIES, FAMILY_NAMES, type Family } from "../../base/family.ts";
import { counted, listText } from "../../base/text.ts";
import { cachedCounters } from "../../kernel/logged-reading.ts";
import { listedObjects } from "../../nft/canonical/parse.ts";
import { asList, asNumber, asObject } from "../../nft/canonical/shape.ts";
import { targetText } from "../../nft/elements.ts";
import type { DaemonPart, FeatureCard, FeatureHost } from "../seam/daemon-part.ts";
import { isResetByDefault, VANISHED } from "./rules.ts";
import type { ShownEndpoints } from "./state.ts";
import type { VanishedEndpoint } from "./vanished-endpoints.ts";

/** Counts the packets that were reset, and shows the endpoints on the status page. */
export function createDaemonPart(host: FeatureHost): DaemonPart {
  const { tables, state, shown, settings } = host;
  // A table without rules for this is not read, because a listing takes long.
  const read = async (): Promise<ByFamily<number>> => {
    const countOf = async (family: Family) => {
      const isThere = state().families[family]?.table.sets.has(VANISHED) === true;
      const text = isThere ? await tables.listTable(family) : undefined;
      return text === undefined ? 0 : resetPackets(text);
    };
    return { ip: await countOf("ip"), ip6: await countOf("ip6") };
  };
  const packets = cachedCounters(host, "the count of resets", { ip: 0, ip6: 0 }, read);
  return {
    metrics: {
      nft_proxy_reset_packets_total: {
        kind: "counter",
        help: "Packets to endpoints that left every EndpointSlice, or terminated for too long, answered with a TCP reset; counted since the rules for it were created",
        labels: ["ip_family"],
        samples: async () => {
          const counts = await packets();
          return FAMILIES.map((family) => ({
            labels: { ip_family: FAMILY_NAMES[family] },
            value: counts[family],
          }));
        },
      },
    },
    card: async (now) => {
      const { ip, ip6 } = await packets();
      return vanishedCard(shown() as ShownEndpoints, ip + ip6, isResetByDefault(settings), now);
    },
  };
}

/** Lists the newest first. None if no connection is or will be reset. */
export function vanishedCard(
  { held, draining }: ShownEndpoints,
  packets: number,
  isDefault: boolean,
  now: number,
): FeatureCard | undefined {
  if (!isDefault && held.length + draining.length === 0) return undefined;
  const lineOf = ({ target, services, leftAt, isDrained }: VanishedEndpoint) => {
    const from = services.length === 0 ? "" : ` ${listText(services)}`;
    const what = isDrained ? "exceeded the drain timeout of" : "left";
    return `${targetText(target)} ${what}${from} ${durationWords(now - leftAt)} ago`;
  };
  return {
    title: "Vanished endpoints",
    tone: held.length === 0 ? "good" : "idle",
    value: String(held.length),
    lines: [
      `${counted(packets, "packet")} of their clients reset`,
      ...(draining.length === 0 ? [] : [`${counted(draining.length, "endpoint")} of Services draining`]),
    ],
    list: held.toReversed().map(lineOf),
  };
}

/**
 * Sums the counters of rules with a reset in a listing. Throws NFT_OUTPUT for a form that nft never prints.
 */
export function resetPackets(listing: string): number {
  const rules = listedObjects(listing).filter(({ kind }) => kind === "rule");
  return rules.reduce<number>((sum, { body }) => {
    const statements = asList(body.expr ?? [], "rule").map((one) => asObject(one, "statement"));
    const isReset = statements.some(
      ({ reject }) => reject !== undefined && asObject(reject ?? {}, "reject").type === "tcp reset",
    );
    const counter = statements.find((one) => one.counter !== undefined)?.counter;
    return isReset && counter !== undefined
      ? sum + asNumber(asObject(counter, "counter").packets, "packets")
      : sum;
  }, 0);
}
