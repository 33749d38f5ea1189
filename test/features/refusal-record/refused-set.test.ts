import { describe, expect, test } from "vitest";
import { newRefusals, readRefusals } from "../../../src/features/refusal-record/refused-set.ts";
import type { SeenRefusal } from "../../../src/features/seam/refusals.ts";
import type { SetSpec } from "../../../src/nft/ast/ruleset.ts";
import type { ListedElement } from "../../../src/nft/elements.ts";

const NOW = Date.parse("2026-11-21T12:00:00Z");

function entry({ port = 80, packets = 3 } = {}): SeenRefusal {
  const [client, address] = ["10.244.2.9", "10.96.0.10"];
  return { family: "ip", client, address, protocol: "tcp", port, packets, silentFor: 60 };
}

describe("newRefusals", () => {
  test("returns the packets since the last reading, and all packets of entries that expired meanwhile", () => {
    const before = [entry(), entry({ port: 81, packets: 9 })];
    const now = [entry({ packets: 5 }), entry({ port: 81, packets: 2 }), entry({ port: 82 })];
    expect(newRefusals(before, now).map(({ port, packets }) => [port, packets])).toEqual([
      [80, 2],
      [81, 2],
      [82, 3],
    ]);
    expect(newRefusals(now, now)).toEqual([]);
  });
});

describe("readRefusals", () => {
  const spec: SetSpec = {
    name: "refused",
    key: ["ipv4_addr", "ipv4_addr", "inet_proto", "inet_service"],
    dynamic: true,
    counter: true,
  };
  const set = {
    set: { family: "ip", table: "nft-proxy", name: "refused", type: spec.key, flags: ["timeout", "dynamic"] },
  };
  const tables = (elements: readonly ListedElement[]): Parameters<typeof readRefusals>[0] => ({
    listTable: async (family) =>
      family === "ip"
        ? JSON.stringify({ nftables: [{ table: { family: "ip", name: "nft-proxy" } }, set] })
        : undefined,
    async *elements() {
      yield elements;
    },
    element: async () => undefined,
  });
  const element = { key: "10.0.0.1 . 10.96.0.9 . tcp . 80", value: "", packets: 22, timeoutMs: 3_600_000 };

  test("reads the elements of all families with the set", async () => {
    const listed = [{ ...element, expiresMs: 3_534_000 }];
    expect(await readRefusals(tables(listed), ["ip", "ip6"], NOW)).toEqual([
      {
        family: "ip",
        client: "10.0.0.1",
        address: "10.96.0.9",
        protocol: "tcp",
        port: 80,
        packets: 22,
        silentFor: 66,
      },
    ]);
    expect(await readRefusals(tables([]), ["ip"], NOW), "empty").toEqual([]);
  });

  test("returns undefined if no family records refusals", async () => {
    expect(await readRefusals(tables([]), ["ip6"], NOW)).toBeUndefined();
  });

  test("gives first times for single packets only", async () => {
    const [one, several] = [1, 2].map((packets) => ({ ...element, packets, expiresMs: 3_540_000 }));
    const read = await readRefusals(tables([one ?? element, several ?? element]), ["ip"], NOW);
    expect(read?.map(({ firstAt }) => firstAt)).toEqual([NOW - 60_000, undefined]);
  });

  test("an entry that was just used is silent for 0 s", async () => {
    const read = await readRefusals(tables([{ ...element, expiresMs: 3_600_400 }]), ["ip"], NOW);
    expect(read?.map(({ silentFor }) => silentFor)).toEqual([0]);
  });
});
