import { describe, expect, test } from "vitest";
import { DEFAULT_PASSIVE_HEALTH_CHECK } from "../../../src/features/passive-health-checks/check.ts";
import { PassiveHealth } from "../../../src/features/passive-health-checks/passive-health.ts";
import type { Answer } from "../../../src/features/passive-health-checks/probe.ts";
import { ANSWERS, ATTEMPTS, RESETS } from "../../../src/features/passive-health-checks/rules.ts";
import type { EndpointCounts } from "../../../src/features/passive-health-checks/suspicion.ts";
import type { FeatureEvent, FeatureHost } from "../../../src/features/seam/daemon-part.ts";
import { nftProgram } from "../../../src/kernel/nft.ts";
import type { TableReader } from "../../../src/kernel/table-reader.ts";
import type { ServiceName } from "../../../src/model/ids.ts";
import { Renderer } from "../../../src/ruleset/renderer.ts";
import { cacheOf, endpoint, named, STARTING, service, slice, testNodeContext } from "../../support/build.ts";
import { FakeFlowListener } from "../../support/fake-flow-listener.ts";
import { FakeFlowTable } from "../../support/fake-flow-table.ts";
import { FakeHostFiles } from "../../support/fake-host-files.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { memoryLogger } from "../../support/memory-logger.ts";
import { syncReport } from "../../support/sync-report.ts";

const WEB = named("shop/web");
const ALL = ["10.244.1.1", "10.244.1.2", "10.244.1.3", "10.244.1.4"];

/** Makes a node with one Service of these endpoints. Tests set its counters, and whether endpoints answer. */
function node(addresses: readonly string[] = ALL, apiServers: readonly string[] = []) {
  const clock = new ManualClock();
  const logger = memoryLogger();
  const nodeContext = testNodeContext({
    settings: { passiveHealthCheck: DEFAULT_PASSIVE_HEALTH_CHECK },
    apiServers,
  });
  const cache = cacheOf({
    services: [service({ name: "shop/web", clusterIPs: ["10.96.0.10"] })],
    slices: [slice({ service: "shop/web", endpoints: addresses })],
  });
  const renderer = new Renderer(cache, nodeContext);
  const counts = new Map<string, EndpointCounts>();
  const answers = new Map<string, Answer>();
  const probed: string[] = [];
  const warnings: { readonly service: ServiceName; readonly event: FeatureEvent }[] = [];
  const left: string[] = [];
  let answer: ((address: string) => Promise<Answer>) | undefined;
  const countOf = (set: string, key: string) => {
    const known = counts.get(key) ?? { attempts: 0, answers: 0, resets: 0 };
    return { [ATTEMPTS]: known.attempts, [ANSWERS]: known.answers, [RESETS]: known.resets }[set] ?? 0;
  };
  const tables: TableReader = {
    listTable: async () => undefined,
    elements: async function* (family, spec) {
      const keys = renderer.state.families[family]?.table.sets.get(spec.name)?.elements.keys() ?? [];
      yield [...keys].map((key) => ({ key, value: "", packets: countOf(spec.name, key) }));
    },
    element: async (_, spec, key) => ({ key, value: "", packets: countOf(spec.name, key) }),
  };
  const host: FeatureHost = {
    clock,
    logger,
    nft: nftProgram({ path: "false" }),
    tables,
    files: new FakeHostFiles({}),
    flows: new FakeFlowTable(),
    listenToFlows: new FakeFlowListener().listen,
    cache,
    state: () => renderer.state,
    nodeContext: () => nodeContext,
    settings: {},
    shown: () => undefined,
    requestSync: () => {},
    betweenSyncs: async () => {},
    localAddresses: () => [],
    warn: (service, event) => warnings.push({ service, event }),
  };
  const health = new PassiveHealth(
    host,
    async (address) => {
      probed.push(address);
      return (await answer?.(address)) ?? answers.get(address) ?? "answered";
    },
    async (endpoints) => {
      left.push(...endpoints.map((one) => one.target));
    },
  );
  const sync = (startedMonotonic = clock.monotonic(), waiting: ReadonlySet<ServiceName> = new Set()) => {
    renderer.update(cache.takeDirty());
    health.synced(syncReport({ rendered: renderer.rendered, waiting, nodeContext, startedMonotonic }));
  };
  sync();
  const target = (address: string) => `${address} . 8080`;
  return {
    clock,
    logger,
    cache,
    renderer,
    health,
    probed,
    warnings,
    left,
    answers,
    sync,
    /** Sets the answer to the next connects. */
    answerBy: (by: typeof answer) => {
      answer = by;
    },
    /** Adds to an endpoint's counters. */
    count: (address: string, attempts: number, answered = 0, resets = 0) => {
      const known = counts.get(target(address)) ?? { attempts: 0, answers: 0, resets: 0 };
      counts.set(target(address), {
        attempts: known.attempts + attempts,
        answers: known.answers + answered,
        resets: known.resets + resets,
      });
    },
    /** Reads the counters after a second, waits for the connects, and syncs. */
    look: async (seconds = 1) => {
      clock.advance(1000 * seconds);
      await health.poll();
      for (let turn = 0; turn < 20; turn++) await Promise.resolve();
      sync();
    },
    /** Returns the addresses that get connections. */
    served: () => {
      const endpoints = renderer.state.families.ip?.table.sets.get("endpoints")?.elements.values() ?? [];
      return [...new Set([...endpoints].map((text) => text.split(" ")[0]))].sort();
    },
    ejected: () => health.ejected().map((one) => one.target.split(" ")[0]),
  };
}

describe("an endpoint that answers no new connections", () => {
  test("is ejected when it does not answer the daemon either", async () => {
    const { look, count, answers, probed, served, warnings, logger, health } = node();
    answers.set("10.244.1.2", "failed");
    await look();
    count("10.244.1.2", 5, 0, 5);
    await look();
    expect(probed).toEqual(["10.244.1.2"]);
    expect(served()).toEqual(["10.244.1.1", "10.244.1.3", "10.244.1.4"]);
    expect(health.ejected()).toMatchObject([
      { target: "10.244.1.2 . 8080", services: [WEB], reason: "refused 5 of 5 new connections" },
    ]);
    expect(warnings).toEqual([
      {
        service: WEB,
        event: {
          reason: "EndpointEjected",
          action: "PassiveHealthCheck",
          note: "endpoint 10.244.1.2:8080 does not answer: it refused 5 of 5 new connections, and gets no new ones until it answers",
          clusterKey: "10.244.1.2:8080",
        },
      },
    ]);
    expect(logger.lines).toMatchObject([{ fields: { found: "refused 5 of 5 new connections" } }]);
  });

  test("is not tried before enough connections have failed in a row", async () => {
    const { look, count, probed } = node();
    await look();
    count("10.244.1.2", 2);
    await look();
    count("10.244.1.2", 1, 1);
    await look();
    count("10.244.1.2", 2);
    await look();
    expect(probed).toEqual([]);
  });

  test("is reported as removed after the first sync that began with its ejection", async () => {
    const { look, count, answers, clock, health, sync, left } = node();
    answers.set("10.244.1.2", "failed");
    await look();
    count("10.244.1.2", 3);
    const before = clock.monotonic();
    clock.advance(1000);
    await health.poll();
    for (let turn = 0; turn < 20; turn++) await Promise.resolve();
    clock.set(-3_600_000);
    sync(before);
    expect(left).toEqual([]);
    sync();
    sync();
    expect(left).toEqual(["10.244.1.2 . 8080"]);
  });

  test("is not reported as removed while its Service waits for a later sync", async () => {
    const { look, count, answers, clock, health, sync, left } = node();
    answers.set("10.244.1.2", "failed");
    await look();
    count("10.244.1.2", 3);
    clock.advance(1000);
    await health.poll();
    for (let turn = 0; turn < 20; turn++) await Promise.resolve();
    sync(clock.monotonic(), new Set([WEB]));
    expect(left).toEqual([]);
    sync();
    expect(left).toEqual(["10.244.1.2 . 8080"]);
  });

  test("stays if it answers the daemon, which tries it again only after a while", async () => {
    const { look, count, probed, ejected } = node();
    await look();
    for (let second = 0; second < 9; second++) {
      count("10.244.1.2", 3);
      await look();
    }
    expect([probed.length, ejected()]).toEqual([1, []]);
    count("10.244.1.2", 3);
    await look(5);
    expect(probed).toHaveLength(2);
  });

  test("stays if the daemon itself cannot connect, and is tried again", async () => {
    const { look, count, answers, probed, ejected } = node();
    await look();
    answers.set("10.244.1.2", "unknown");
    count("10.244.1.2", 3);
    await look();
    expect([probed.length, ejected()]).toEqual([1, []]);
    answers.set("10.244.1.2", "failed");
    await look(60);
    expect(ejected()).toEqual(["10.244.1.2"]);
  });

  test("stays if it answers a client while the daemon tries it", async () => {
    const { look, count, answerBy, ejected } = node();
    await look();
    count("10.244.1.2", 3);
    answerBy(async () => {
      count("10.244.1.2", 1, 1);
      return "failed";
    });
    await look();
    expect(ejected()).toEqual([]);
  });

  test("is not ejected if it left the lists while the daemon tried it", async () => {
    const { look, count, answerBy, cache, sync, ejected } = node();
    await look();
    count("10.244.1.2", 3);
    answerBy(async () => {
      cache.putSlice(slice({ service: "shop/web", endpoints: [ALL[0] as string] }));
      sync();
      return "failed";
    });
    await look();
    expect([ejected(), cache.ejected.ip.size]).toEqual([[], 0]);
  });

  test("is not ejected if it left the lists and returned while the daemon tried it", async () => {
    const { look, count, answerBy, cache, sync, ejected, health } = node();
    await look();
    count("10.244.1.2", 3);
    answerBy(async () => {
      for (const endpoints of [[ALL[0] as string], ALL]) {
        cache.putSlice(slice({ service: "shop/web", endpoints }));
        sync();
      }
      await health.poll();
      return "failed";
    });
    await look();
    await look();
    expect(ejected()).toEqual([]);
  });

  test("is not tried at the node's own kinds of addresses, or if it is the API server", async () => {
    const own = ["127.0.0.1", "169.254.169.254", "224.0.0.1", "10.244.1.2", "10.244.1.3"];
    const { look, count, probed } = node(own, ["10.244.1.2 . tcp . 8080"]);
    await look();
    for (const address of own) count(address, 3);
    await look();
    expect(probed).toEqual(["10.244.1.3"]);
  });
});

describe("an ejected endpoint", () => {
  async function ejecting(addresses = ALL) {
    const made = node(addresses);
    made.answers.set("10.244.1.2", "failed");
    await made.look();
    made.count("10.244.1.2", 3);
    await made.look();
    expect(made.ejected()).toEqual(["10.244.1.2"]);
    return made;
  }

  test("is tried again after growing pauses, and returns when it answers", async () => {
    const { look, probed, answers, served } = await ejecting();
    const times: number[] = [];
    for (let second = 1; second <= 1000; second++) {
      const before = probed.length;
      await look();
      if (probed.length > before) times.push(second);
    }
    expect(times).toEqual([10, 30, 70, 150, 310, 610, 910]);
    answers.set("10.244.1.2", "answered");
    await look(300);
    expect(served()).toEqual(ALL);
  });

  test("is tried at once if it fails again after its return", async () => {
    const { look, answers, count, ejected } = await ejecting();
    answers.set("10.244.1.2", "answered");
    await look(10);
    expect(ejected()).toEqual([]);
    answers.set("10.244.1.2", "failed");
    count("10.244.1.2", 3);
    await look();
    expect(ejected()).toEqual(["10.244.1.2"]);
  });

  test("returns at once if Kubernetes removes it from the lists and lists it again", async () => {
    const { cache, sync, served } = await ejecting();
    const others = ALL.filter((address) => address !== "10.244.1.2").map((address) => endpoint(address));
    cache.putSlice(slice({ service: "shop/web", endpoints: [...others, endpoint("10.244.1.2", STARTING)] }));
    sync();
    cache.putSlice(slice({ service: "shop/web", endpoints: ALL }));
    sync();
    expect(served()).toEqual(ALL);
  });

  test("returns to the lists of Services that came after its ejection", async () => {
    const { cache, sync, look, answers, renderer } = await ejecting();
    cache.putService(service({ name: "shop/later", clusterIPs: ["10.96.0.11"] }));
    cache.putSlice(slice({ service: "shop/later", endpoints: ALL }));
    sync();
    const listed = () =>
      [...(renderer.state.families.ip?.table.sets.get("endpoints")?.elements.values() ?? [])].filter(
        (target) => target === "10.244.1.2 . 8080",
      );
    expect(listed()).toEqual([]);
    answers.set("10.244.1.2", "answered");
    await look(10);
    expect(listed()).toHaveLength(2);
  });

  test("of an earlier process is tried at once, and again after growing pauses", async () => {
    const { cache, sync, look, probed, answers, ejected, served } = node();
    cache.setEjected("ip", "10.244.1.2 . 8080", true, [WEB]);
    sync();
    expect(ejected()).toEqual(["10.244.1.2"]);
    answers.set("10.244.1.2", "failed");
    const times: number[] = [];
    for (let second = 1; second <= 100; second++) {
      const before = probed.length;
      await look();
      if (probed.length > before) times.push(second);
    }
    expect(times).toEqual([1, 21, 61]);
    answers.set("10.244.1.2", "answered");
    await look(100);
    expect(served()).toEqual(ALL);
  });

  test("is followed by others up to the allowed share, but never by the last one", async () => {
    const { look, count, answers, ejected, probed } = await ejecting();
    for (const address of ALL) answers.set(address, "failed");
    for (const address of ALL) count(address, 3);
    await look();
    await look();
    expect(ejected()).toHaveLength(2);
    expect(probed.length).toBeLessThanOrEqual(4);
    const alone = node(["10.244.1.2"]);
    alone.answers.set("10.244.1.2", "failed");
    await alone.look();
    alone.count("10.244.1.2", 9);
    await alone.look();
    expect([alone.ejected(), alone.probed]).toEqual([[], []]);
  });
});

test("the connects after one reading are limited for each namespace", async () => {
  const addresses = Array.from({ length: 30 }, (_, index) => `10.244.2.${index + 1}`);
  const { health, count, probed } = node(addresses);
  await health.poll();
  for (const address of addresses) count(address, 3);
  await health.poll();
  expect(probed).toHaveLength(8);
  await health.poll();
  expect(new Set(probed), "the rest waits for the next reading only").toHaveLength(16);
});

test("connects under way count for their namespace", async () => {
  const addresses = Array.from({ length: 30 }, (_, index) => `10.244.2.${index + 1}`);
  const { look, count, probed, answerBy } = node(addresses);
  await look();
  answerBy(() => new Promise(() => {}));
  for (const address of addresses) count(address, 3);
  await look();
  await look();
  expect(probed).toHaveLength(8);
});

test("suspects of four namespaces that always answer the daemon do not prevent tests of another namespace's suspects", async () => {
  const { cache, sync, look, count, probed } = node([], []);
  const names = ["a/web", "b/web", "c/web", "d/web", "last/web"];
  const addresses = names.map((_, n) =>
    Array.from({ length: 100 }, (_, index) => `10.244.${n}.${index + 1}`),
  );
  for (const [n, name] of names.entries()) {
    cache.putService(service({ name, clusterIPs: [`10.96.1.${n + 1}`] }));
    cache.putSlice(slice({ service: name, endpoints: addresses[n] ?? [] }));
  }
  sync();
  await look();
  for (let round = 0; round < 30; round++) {
    for (const address of addresses.flat()) count(address, 5);
    await look();
  }
  expect(probed).toContain("10.244.4.1");
});

test("a suspect does not wait for all ejected endpoints that are due", async () => {
  const addresses = Array.from({ length: 40 }, (_, index) => `10.244.1.${index + 1}`);
  const { cache, sync, look, count, probed } = node(addresses);
  for (const address of addresses.slice(0, 18)) cache.setEjected("ip", `${address} . 8080`, true, [WEB]);
  sync();
  await look();
  probed.length = 0;
  count("10.244.1.40", 5);
  await look();
  expect(probed).toContain("10.244.1.40");
});

test("connections are counted by Service", async () => {
  const { look, count, health } = node();
  await look();
  count("10.244.1.1", 4, 3, 1);
  count("10.244.1.2", 2, 2);
  await look();
  const counted = health.metrics.nft_proxy_watched_connections_total.samples();
  expect(counted.map(({ labels, value }) => [labels.service, labels.result, value])).toEqual([
    ["web", "tried", 6],
    ["web", "answered", 5],
    ["web", "refused", 1],
  ]);
});
