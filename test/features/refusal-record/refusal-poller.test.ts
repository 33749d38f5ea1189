import { describe, expect, test, vi } from "vitest";
import { RefusalPoller } from "../../../src/features/refusal-record/refusal-poller.ts";
import type { RefusalEntry } from "../../../src/features/seam/refusals.ts";
import type { RulesetState } from "../../../src/ruleset/ruleset-state.ts";
import { cacheOf, port, renderAll, service, slice, testNodeContext } from "../../support/build.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { memoryLogger } from "../../support/memory-logger.ts";

const { state } = renderAll({
  services: [
    service({ name: "shop/none", clusterIPs: ["10.96.0.10"], ports: [port(80, { nodePort: 30080 })] }),
    service({ name: "shop/far", clusterIPs: ["10.96.0.11"], internal: "Local" }),
    service({
      name: "shop/guarded",
      clusterIPs: ["10.96.0.12"],
      loadBalancerIPs: ["203.0.113.9"],
      sourceRanges: ["198.51.100.0/24"],
    }),
  ],
  slices: [
    slice({ service: "shop/far", endpoints: ["10.244.2.1"] }),
    slice({ service: "shop/guarded", endpoints: ["10.244.2.2"] }),
  ],
});

function entry(address: string, port = 80, packets = 1, client = "10.244.1.9", silentFor = 0): RefusalEntry {
  return { family: "ip", client, address, protocol: "tcp", port, packets, silentFor };
}

/** A poller of some rules, whose readings `read` gives. */
function pollerOf(read: () => Promise<readonly RefusalEntry[]>, rules: RulesetState = state) {
  const clock = new ManualClock();
  const logger = memoryLogger();
  const told: string[] = [];
  const watch = new RefusalPoller(
    {
      ...{ clock, logger },
      cache: cacheOf({}),
      state: () => rules,
      nodeContext: () => testNodeContext({ refusalLogSize: 9 }),
      warn: (service, { reason, note, clusterKey }) => {
        expect([reason, clusterKey]).toEqual(["ConnectionsRefused", ""]);
        told.push(`${service}: ${note.match(/dropped (.*);/)?.[1]}`);
      },
    },
    read,
  );
  /** Packets by Service and reason. */
  const counts = () =>
    Object.fromEntries(
      watch.metrics.nft_proxy_refused_packets_total.samples().map(({ labels, value }) => {
        const { namespace, service, reason } = labels ?? {};
        return [`${[namespace, service].filter(Boolean).join("/")} ${reason}`, value];
      }),
    );
  return { watch, clock, logger, told, counts };
}

function watching() {
  let entries: readonly RefusalEntry[] | Error = [];
  const parts = pollerOf(async () => {
    if (entries instanceof Error) throw entries;
    return entries;
  });
  const firstTimes = async (...seen: readonly RefusalEntry[]) => {
    entries = seen;
    return (await parts.watch.refusals()).map(({ firstAt }) => firstAt);
  };
  const see = async (...seen: readonly RefusalEntry[] | [Error]) => {
    entries = seen[0] instanceof Error ? seen[0] : (seen as readonly RefusalEntry[]);
    await parts.watch.poll();
  };
  return { ...parts, see, firstTimes };
}

describe("RefusalPoller", () => {
  test("sums the refusals that the kernel has recorded, with the latest clients first", async () => {
    const { watch, see } = watching();
    const clients = [40, 10, 70, 20, 60, 30, 50].map((silentFor) => {
      return entry("10.96.0.10", 80, 1, `10.244.1.${silentFor}`, silentFor);
    });
    await see(...clients, entry("10.96.0.11", 81, 3, "10.244.1.9", 5));
    expect(watch.card()).toMatchObject({
      tone: "idle",
      value: "10 packets",
      lines: ["to 2 destinations, of 8 clients", expect.stringContaining("nft-proxy refusals")],
      list: [
        "10.244.1.9 to 10.96.0.11:81/tcp",
        "10.244.1.10 to 10.96.0.10:80/tcp",
        "10.244.1.20 to 10.96.0.10:80/tcp",
        "10.244.1.30 to 10.96.0.10:80/tcp",
        "10.244.1.40 to 10.96.0.10:80/tcp",
      ],
    });
    expect(watch.fills()).toEqual([
      { what: "Recorded refusals, IPv4", used: 8, limit: 9 },
      { what: "Recorded refusals, IPv6", used: 0, limit: 9 },
    ]);
  });

  test("has no card before the first reading, and then says that nothing was refused", async () => {
    const { watch, see } = watching();
    expect([watch.card(), watch.fills().map(({ used }) => used)]).toEqual([
      undefined,
      [undefined, undefined],
    ]);
    await see();
    expect(watch.card()).toMatchObject({ tone: "good", value: "none" });
  });

  test("looks at the Services of earlier Events once for each reading, not for each Service", async () => {
    const { see, told } = watching();
    await see();
    const passes = vi.spyOn(Map.prototype, Symbol.iterator);
    try {
      await see(entry("10.96.0.10"));
      const ofOne = passes.mock.calls.length;
      passes.mockClear();
      await see(...["10.96.0.10", "10.96.0.11", "203.0.113.9"].map((address) => entry(address, 80, 2)));
      expect(told).toHaveLength(3);
      expect(passes.mock.calls.length).toBe(ofOne);
    } finally {
      passes.mockRestore();
    }
  });

  test("lists refusals of the same second in a fixed order, whatever the kernel's order", async () => {
    const { watch, see } = watching();
    const entries = [4, 1, 6, 3, 5, 2].map((n) => entry("10.96.0.10", 80, 1, `10.244.1.${n}`, 7));
    await see(...entries);
    const first = watch.card()?.list;
    expect(first?.map((line) => line.split(" ")[0])).toEqual([1, 2, 3, 4, 5].map((n) => `10.244.1.${n}`));
    await see(...entries.toReversed());
    expect(watch.card()?.list).toEqual(first);
  });

  test("counts packets since the last reading by Service and reason", async () => {
    const { see, counts } = watching();
    await see(entry("10.96.0.10", 80, 5));
    await see(
      entry("10.96.0.10", 80, 7),
      entry("192.0.2.2", 30080),
      entry("10.96.0.11"),
      entry("203.0.113.9"),
      entry("10.96.0.12"),
      entry("10.96.0.12", 81),
      entry("10.96.9.9"),
    );
    expect(counts()).toEqual({
      "shop/none no-endpoints": 3,
      "shop/far no-local-endpoints": 1,
      "shop/guarded source-ranges": 1,
      "shop/guarded served": 1,
      " unserved-port": 1,
      " no-service": 1,
    });
  });

  test("reports each Service at most once an hour", async () => {
    const { see, told, clock } = watching();
    await see();
    await see(entry("10.96.0.10", 80, 2), entry("10.96.0.10", 80, 1, "10.244.1.8"));
    await see(entry("10.96.0.10", 80, 9));
    expect(told).toEqual(["shop/none: 3 packets of 2 clients: no endpoints"]);
    await clock.advance(3_600_000);
    await see(entry("10.96.0.10", 80, 10));
    expect(told).toHaveLength(2);
  });

  test("distinguishes 1,000 Services, and counts the packets of the rest with those of none", async () => {
    const many = renderAll({
      services: Array.from({ length: 1100 }, (_, i) => {
        return service({ name: `shop/s${i}`, clusterIPs: [`10.96.${i >> 8}.${i & 255}`] });
      }),
    }).state;
    let entries: RefusalEntry[] = [];
    const { watch, counts } = pollerOf(async () => entries, many);
    await watch.poll();
    entries = Array.from({ length: 1100 }, (_, i) => entry(`10.96.${i >> 8}.${i & 255}`));
    await watch.poll();
    expect([Object.keys(counts()).length, counts()[" no-endpoints"]]).toEqual([1001, 100]);
    entries = ["10.97.0.1", "10.96.0.1", "10.96.4.75"].map((address) => entry(address, 81));
    await watch.poll();
    expect([watch.metrics.nft_proxy_refused_packets_total.samples().length, counts()]).toMatchObject([
      1003,
      { " no-service": 1, " unserved-port": 2 },
    ]);
  });

  test("takes little time for many clients that many source ranges do not allow", async () => {
    const ranges = Array.from({ length: 20_000 }, (_, i) => `11.${i >> 8}.${i & 255}.0/25`);
    const guarded = renderAll({
      services: [
        service({
          name: "shop/guarded",
          clusterIPs: ["10.96.0.12"],
          loadBalancerIPs: ["203.0.113.9"],
          sourceRanges: ranges,
          clientLimits: { connections: 5 },
        }),
      ],
      slices: [slice({ service: "shop/guarded", endpoints: ["10.244.2.2"] })],
    }).state;
    let entries: RefusalEntry[] = [];
    const { watch, counts } = pollerOf(async () => entries, guarded);
    await watch.poll();
    entries = Array.from({ length: 20_000 }, (_, i) => {
      return entry("203.0.113.9", 80, 1, `11.${i >> 8}.${i & 255}.200`);
    });
    entries.push(entry("203.0.113.9", 80, 1, "11.0.3.127"));
    await watch.poll();
    expect(counts()).toEqual({ "shop/guarded source-ranges": 20_000, "shop/guarded client-limits": 1 });
  });

  test("reports the first time only of refusals whose beginning it saw", async () => {
    const { clock, firstTimes } = watching();
    const start = clock.now();
    const [old, single] = [entry("10.96.0.10", 80, 5), entry("10.96.0.10", 80, 1, "10.244.1.7", 9)];
    expect(await firstTimes(old, single)).toEqual([undefined, start - 9000]);
    await clock.advance(60_000);
    const fresh = entry("10.96.0.11", 80, 3, "10.244.1.9", 20);
    expect(await firstTimes({ ...old, packets: 6 }, { ...single, packets: 4 }, fresh)).toEqual([
      undefined,
      start - 9000,
      start + 40_000,
    ]);
    await clock.advance(60_000);
    expect(await firstTimes(fresh, { ...old, packets: 2 })).toEqual([start + 40_000, start + 120_000]);
    expect(await firstTimes(), "nothing is remembered that the kernel does not remember").toEqual([]);
    expect(await firstTimes(fresh)).toEqual([start + 100_000]);
  });

  test("counts no packet twice if a command asks during a reading", async () => {
    const { watch, see, firstTimes, counts } = watching();
    await see();
    const asked = firstTimes(entry("10.96.0.10", 80, 4));
    await Promise.all([watch.poll(), asked, watch.refusals()]);
    expect(counts()).toEqual({ "shop/none no-endpoints": 4 });
  });

  test("rejects a command's request if its reading fails, and answers the next one", async () => {
    const { see, firstTimes, watch } = watching();
    await see(new Error("no nft"));
    await expect(watch.refusals()).rejects.toThrow("no nft");
    expect(await firstTimes(entry("10.96.0.10"))).toHaveLength(1);
  });

  test.each([
    ["every half minute if readings are quick", 0, [30, 60, 90]],
    ["after a pause 50 times as long as the reading if that takes 3 s", 3000, [30, 183, 336]],
  ])("reads the records %s, until it is stopped", async (_, took, expected) => {
    const looks: number[] = [];
    const { watch, clock } = pollerOf(() => {
      looks.push(clock.now() / 1000);
      return new Promise<RefusalEntry[]>((resolve) => clock.after(took, () => resolve([])));
    });
    watch.synced();
    watch.synced();
    for (let second = 0; second < 340 && looks.length < expected.length; second++) {
      clock.advance(1000);
      await new Promise(setImmediate);
    }
    expect(looks).toEqual(expected);
    watch.stop();
    clock.advance(took);
    await new Promise(setImmediate);
    expect(clock.timers).toBe(0);
  });

  test("warns once of failing readings, and counts their packets in the next one", async () => {
    const { see, logger, counts } = watching();
    await see();
    await see(new Error("no nft"));
    await see(new Error("no nft"));
    await see(entry("10.96.0.10", 80, 4));
    expect(logger.lines.map(({ level }) => level)).toEqual(["warn", "debug", "info"]);
    expect(counts()).toEqual({ "shop/none no-endpoints": 4 });
  });
});
