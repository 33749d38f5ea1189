import { expect, test } from "vitest";
import { createDaemonPart, vanishedCard } from "../../../src/features/connection-life/reset-packets.ts";
import type { FeatureHost } from "../../../src/features/seam/daemon-part.ts";
import { named, renderAll, testNodeContext } from "../../support/build.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { memoryLogger } from "../../support/memory-logger.ts";

const NOW = 1_000_000;

/** The card as lines. */
function lines(...given: Parameters<typeof vanishedCard>): string | undefined {
  const card = vanishedCard(...given);
  return card && [card.title, card.value, ...card.lines, ...card.list].join(" ");
}

test("the card exists only with the option, and shows endpoints that left, newest first, with their Service if known", () => {
  const older = { family: "ip", target: "10.244.1.5 . 8080", services: [], leftAt: NOW - 300_000 } as const;
  const [family, services] = ["ip6", [named("web")]] as const;
  const newer = { family, target: "fd00::5 . 8080", services, leftAt: NOW - 4000 } as const;
  const none = { held: [], draining: [] };
  expect(lines(none, 0, false, NOW)).toBeUndefined();
  expect(lines(none, 0, true, NOW)).toBe("Vanished endpoints 0 0 packets of their clients reset");
  const drained = { ...older, services: [named("web")], isDrained: true } as const;
  const ending = {
    family: "ip",
    service: named("web"),
    address: "10.244.1.5",
    since: NOW,
    dueAt: NOW,
  } as const;
  expect(lines({ held: [drained], draining: [ending] }, 0, false, NOW)).toContain(
    "1 endpoint of Services draining 10.244.1.5:8080 exceeded the drain timeout of default/web 5 min ago",
  );
  expect(lines({ held: [older, newer], draining: [] }, 7, false, NOW)).toBe(
    "Vanished endpoints 2 7 packets of their clients reset [fd00::5]:8080 left default/web 4 s ago 10.244.1.5:8080 left 5 min ago",
  );
});

test("packets are counted by family, with 0 for a table without the rules, which is not read", async () => {
  const { state } = renderAll({}, testNodeContext());
  state.families.ip?.setKeys("connection-life", new Set(["10.244.1.5 . 8080"]));
  const rule = { expr: [{ counter: { packets: 3, bytes: 1 } }, { reject: { type: "tcp reset" } }] };
  const read: string[] = [];
  const listTable = async (family: string) => {
    read.push(family);
    return JSON.stringify({ nftables: [{ rule }] });
  };
  const [clock, logger] = [new ManualClock(), memoryLogger()];
  const host = { clock, logger, state: () => state, settings: {}, tables: { listTable } };
  const { metrics } = createDaemonPart(host as unknown as FeatureHost);
  expect(await metrics?.nft_proxy_reset_packets_total?.samples()).toEqual([
    { labels: { ip_family: "IPv4" }, value: 3 },
    { labels: { ip_family: "IPv6" }, value: 0 },
  ]);
  expect(read).toEqual(["ip"]);
});
