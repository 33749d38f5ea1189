import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { afterEach, describe, expect, onTestFinished, test } from "vitest";
import type { ProxyOptions } from "../../../src/config/options.ts";
import { resolveOptions } from "../../../src/config/resolve.ts";
import { createDaemon, type Daemon } from "../../../src/daemon/daemon.ts";
import { judgeHealth } from "../../../src/daemon/health/health.ts";
import type { OriginObserver } from "../../../src/daemon/object-source.ts";
import type { CostlyTable } from "../../../src/kernel/others-sets.ts";
import { INITIAL_STATE, RESOURCE_NAMES, type SourceHandlers } from "../../../src/kube/source.ts";
import { removalTransaction } from "../../../src/nft/transaction.ts";
import { named, node, service } from "../../support/build.ts";
import { FakeListener } from "../../support/fake-listener.ts";
import { FakeNft } from "../../support/fake-nft.ts";
import { idleHost } from "../../support/idle-host.ts";
import { idleOrigin } from "../../support/idle-origin.ts";
import { NO_SERVERS } from "../../support/in-process-daemon.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { memoryLogger } from "../../support/memory-logger.ts";

const options = { ...resolveOptions().options, ...NO_SERVERS };
const HOUR = 3_600_000;
const NODE_ADDRESSES = {
  ...{ primary: false, localhost: { ip: false, ip6: false } },
  cidrs: { ip: ["192.0.2.0/24"], ip6: [] },
};
let daemon: Daemon | undefined;
afterEach(async () => {
  await daemon?.stop();
});

/** Starts a daemon with a fake kernel that has synced one Service. */
async function start({
  given = options as ProxyOptions,
  healthCheckNodePort = 30_123,
  dryRun = false,
  listed = true,
  lock = idleHost().lock,
  setUp = idleHost().setUp,
} = {}) {
  const fake = new FakeNft();
  const kernel = new FakeListener();
  kernel.isReadyAtOnce = true;
  const clock = new ManualClock(100_000);
  const logger = memoryLogger();
  const costly: CostlyTable[] = [];
  const view = {
    families: ["ip" as const],
    addresses: { ip: ["192.0.2.2"], ip6: [] },
    local: ["192.0.2.2"],
    isUnreadable: false,
  };
  let handlers: SourceHandlers | undefined;
  let observer: OriginObserver | undefined;
  const source = { starts: 0 };
  const sent: object[] = [];
  daemon = await createDaemon({
    options: given,
    nodeName: "node-1",
    version: "test",
    hostVersions: { nft: "nftables v1.1.3", kernel: "6.18.1", socat: "1.8.0.3", nodejs: "v20.20.2" },
    nft: fake.nft,
    ownCommits: fake.ownCommits,
    tables: fake.tables,
    system: {
      clock,
      readHost: async () => {
        if (view.isUnreadable) throw new Error("no /proc");
        return view;
      },
      ...idleHost(),
      listenToKernel: kernel.listen,
      costlyTables: async () => costly,
      lock,
      setUp,
    },
    logger,
    objects: {
      ...idleOrigin((given, _nodes, observing) => {
        handlers = given;
        observer = observing;
        const state = INITIAL_STATE;
        const states = { services: state, endpointslices: state, nodes: state, servicecidrs: state };
        return { start: () => (source.starts += 1), stop: () => {}, states: () => states };
      }),
      sendEvent: async (_method, _path, event) => void sent.push(event),
    },
    dryRun,
    flags: new Map(),
    recentLog: () => [],
  });
  await daemon.start();
  // The daemon begins its work once it has the lock of the network namespace.
  await new Promise((resolve) => setImmediate(resolve));
  const pass = async (ms: number) => {
    for (let left = ms; left >= 0; left -= 1000) {
      clock.advance(Math.min(left, 1000));
      // Waits for turns of the event loop, not for time. After these turns, everything that the second caused
      // is done, even on a busy machine.
      for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
    }
  };
  if (handlers === undefined) throw new Error("no source was made");
  handlers.nodes.onUpsert("node-1", node(), undefined);
  handlers.services.onUpsert("default/web", { ...service(), healthCheckNodePort }, undefined);
  const list = async () => {
    for (const name of RESOURCE_NAMES) handlers?.[name].onSynced();
    await pass(0);
  };
  if (listed) await list();
  /** Removes the table as another program would, with the kernel's notification. */
  const remove = () => {
    fake.kernel.apply(removalTransaction([{ family: "ip", name: "nft-proxy" }]));
    kernel.commit([{ kind: "table", op: "delete", name: "nft-proxy" }]);
  };
  return { kernel, remove, fake, costly, clock, logger, daemon, view, source, observer, sent, pass, list };
}

describe("Daemon", () => {
  test("programs the kernel once every resource has been listed", async () => {
    const { fake, daemon } = await start();
    expect(Object.keys(fake.kernel.ruleset)).toEqual(["ip"]);
    expect(daemon.history.syncs).toBe(1);
  });

  test("sets up the host before it follows anything, because features read the settings then", async () => {
    let finish = () => {};
    const setUp = () => new Promise<void>((resolve) => (finish = resolve));
    const { source, pass } = await start({ setUp });
    await pass(5000);
    expect(source.starts).toBe(0);
    finish();
    await pass(0);
    expect(source.starts).toBe(1);
  });

  test("is out of sync from its start to the first sync, even while it waits for the first lists", async () => {
    const { daemon, pass, list, clock } = await start({ listed: false });
    const startedAt = clock.now();
    await pass(90_000);
    expect(daemon.runner.pendingSince).toBeUndefined();
    expect(daemon.health.pendingSince).toBe(startedAt);
    expect(daemon.timeline.minutes(clock.now()).at(-1)?.outOfSyncMs).toBeGreaterThan(0);
    await list();
    expect(daemon.health.pendingSince).toBeUndefined();
    const outOfSync = daemon.timeline
      .minutes(clock.now())
      .reduce((sum, { outOfSyncMs }) => sum + outOfSyncMs, 0);
    expect(outOfSync).toBe(clock.now() - startedAt);
  });

  test("before the first sync has been out of sync since its start, even if the wall clock was changed", async () => {
    const { daemon, clock, pass } = await start({ listed: false });
    await pass(5000);
    for (const step of [HOUR, -2 * HOUR]) {
      clock.set(clock.now() + step);
      expect(clock.now() - (daemon.health.pendingSince ?? 0)).toBe(5000);
    }
  });

  test("warns once that the mode ClusterCIDR lacks a cluster CIDR", async () => {
    const { logger } = await start();
    const said = logger.lines.filter(({ message }) => message.includes("clusterCIDR is not set"));
    expect(said.map(({ level }) => level)).toEqual(["warn"]);
  });

  test("applies changed options in the next sync", async () => {
    const { daemon, pass, fake } = await start();
    const before = fake.transactions.length;
    daemon.setOptions({ ...options, masqueradeAll: true });
    await pass(2000);
    expect(daemon.options.masqueradeAll).toBe(true);
    expect(fake.transactions.length).toBeGreaterThan(before);
  });

  test("rebuilds a removed table at once, and names the program that removed it", async () => {
    const { fake, logger, pass, remove } = await start();
    await pass(2000);
    remove();
    await pass(0);
    expect(Object.keys(fake.kernel.ruleset)).toEqual(["ip"]);
    expect(logger.lines).toContainEqual({
      level: "warn",
      fields: { tables: ["ip nft-proxy"], by: "other (process 99)" },
      message: "tables missing: rebuilding",
    });
  });

  test("compares the tables when it listens again, and repairs changes in the meantime", async () => {
    const { fake, kernel, pass, logger } = await start();
    await pass(2000);
    kernel.end();
    const flushed = { family: "ip", table: "nft-proxy", name: "cluster-ips" } as const;
    fake.kernel.apply({ nftables: [{ flush: { set: flushed } }] });
    await pass(1000);
    await pass(1000);
    expect(fake.kernel.ruleset.ip?.sets.get("cluster-ips")?.elements.size).toBe(1);
    expect(logger.lines).toContainEqual({
      level: "warn",
      fields: { found: expect.any(String) },
      message: "rules differ from the desired state: repairing",
    });
  });

  test("stops listening when it is stopped", async () => {
    const { daemon, kernel } = await start();
    expect(kernel.last.isStopped).toBe(false);
    await daemon.stop();
    expect(kernel.last.isStopped).toBe(true);
  });

  test("warns once of other software's tables that slow transactions down, with their numbers of sets and the cost", async () => {
    const { costly, logger, pass } = await start();
    costly.push({ table: "ip kube-proxy", sets: 11_000, ms: 22 });
    await pass(1_300_000);
    const warnings = logger.lines.filter(({ message }) => message.startsWith("sets of other software"));
    expect(warnings).toEqual([
      {
        level: "warn",
        fields: {
          tables: ["ip kube-proxy: 11000 sets, 22 ms"],
          action: expect.stringContaining("cleanup --kube-proxy"),
        },
        message: "sets of other software slow down changes of both IP families",
      },
    ]);
  });

  test("repairs repeated changes at once, because a repair takes little time", async () => {
    const { fake, daemon, logger, pass, remove } = await start();
    for (let second = 0; second < 120; second++) {
      if (fake.kernel.ruleset.ip !== undefined) remove();
      await pass(1000);
    }
    const { repairs } = daemon.history;
    expect(repairs).toBeGreaterThan(100);
    expect(logger.lines.map(({ fields }) => fields.delaySeconds).filter(Boolean)).toEqual([]);
    await pass(60_000);
    remove();
    // On a busy machine the effects of a second take more turns of the event loop, and later effects wait for
    // the clock.
    for (let second = 0; second < 10 && daemon.history.repairs === repairs; second++) await pass(1000);
    expect(daemon.history.repairs, "once quiet, at once").toBe(repairs + 1);
  });

  test("serves NodePorts at an address that the host got later", async () => {
    const { daemon, view, pass, kernel } = await start();
    daemon.setOptions({ ...options, nodePortAddresses: NODE_ADDRESSES });
    await pass(1000);
    view.addresses = { ip: ["192.0.2.2", "192.0.2.3"], ip6: [] };
    kernel.last.handlers.onHostChange();
    await pass(1000);
    const nodePorts = daemon.reconciler.state.families.ip?.table.sets.get("nodeport-ips")?.elements;
    expect([...(nodePorts?.keys() ?? [])]).toEqual(["192.0.2.2", "192.0.2.3"]);
  });

  test("warns once while the host cannot be read, and again after it could be read", async () => {
    const { view, pass, logger, kernel } = await start();
    const hostChanged = async () => {
      kernel.last.handlers.onHostChange();
      await pass(1000);
    };
    const warned = () =>
      logger.lines.filter(({ message }) => message.includes("this host, retrying (logged once)")).length;
    view.isUnreadable = true;
    await hostChanged();
    await pass(3 * options.syncPeriodMs);
    expect(warned()).toBe(1);
    view.isUnreadable = false;
    await pass(options.syncPeriodMs);
    view.isUnreadable = true;
    await hostChanged();
    expect(warned()).toBe(2);
  });

  test("makes one full sync in each full resync period", async () => {
    const { daemon, pass } = await start();
    daemon.setOptions({ ...options, fullResyncPeriodMs: 60_000, syncPeriodMs: HOUR });
    await pass(62_000);
    expect(daemon.history.fullSync).toMatchObject({ reason: "periodic" });
  });

  test.each([false, true])(
    "dry run %s: opens health check node ports only if it programs rules",
    async (dryRun) => {
      const { logger, daemon, pass } = await start({ dryRun });
      daemon.setOptions({ ...options, nodePortAddresses: NODE_ADDRESSES });
      await pass(1000);
      expect(daemon.cache.service(named("web"))?.healthCheckNodePort).toBe(30_123);
      // This depends on the machine, and may fail.
      const said = () => logger.lines.filter(({ fields }) => /^health check/.test(String(fields.server)));
      await expect.poll(() => said().length > 0).toBe(!dryRun);
    },
  );

  test("reports its start, and ports that it cannot listen on, by kube-proxy's Events", async () => {
    const other = createServer().listen(0, "0.0.0.0");
    onTestFinished(() => void other.close());
    await once(other, "listening");
    const { port } = other.address() as AddressInfo;
    const taken = { address: "127.0.0.1", port };
    const given = { ...options, healthzBindAddress: taken, metricsBindAddress: taken };
    const { sent } = await start({
      given: { ...given, nodePortAddresses: NODE_ADDRESSES },
      healthCheckNodePort: port,
    });
    const action = "StartKubeProxy";
    const regarding = { kind: "Node", name: "node-1" };
    const note = expect.stringContaining(`cannot listen on 127.0.0.1:${port}: `);
    await expect.poll(() => sent).toHaveLength(4);
    expect(sent).toMatchObject([
      { type: "Warning", reason: "FailedToStartProxierHealthcheck", action, note, regarding },
      { type: "Warning", reason: "FailedToStartMetricServer", action, note, regarding },
      { type: "Normal", reason: "Starting", action, note: "", regarding },
      {
        type: "Warning",
        reason: "FailedToStartServiceHealthcheck",
        action: "Listen",
        note: expect.stringContaining(`node-1 failed to start healthcheck "default/web" on port ${port}: `),
        regarding: { kind: "Service", namespace: "default", name: "web" },
      },
    ]);
  });

  test("reports a list without any known object in an Event about the Service kubernetes", async () => {
    const { observer, sent, pass } = await start();
    observer?.onImplausible("endpointslices");
    await pass(15_000);
    expect(sent).toContainEqual(
      expect.objectContaining({
        type: "Warning",
        reason: "ImplausibleList",
        action: "List",
        note: expect.stringContaining("the list of endpointslices lacks all known objects, "),
        regarding: { apiVersion: "v1", kind: "Service", namespace: "default", name: "kubernetes" },
      }),
    );
  });

  test("does nothing and is not ready until another daemon in its network namespace ends", async () => {
    let isFree = false;
    const lock = { take: async () => isFree, release: () => {} };
    const { fake, daemon, logger, clock, pass } = await start({ lock });
    await pass(60_000);
    expect(fake.runs).toEqual([]);
    expect(judgeHealth(daemon.health.snapshot(), clock.now(), 60_000)).toMatchObject({
      lastSynced: undefined,
      reasons: [expect.stringContaining("waiting for another nft-proxy in this network namespace to end")],
    });
    expect(logger.lines.filter(({ message }) => message.startsWith("another nft-proxy runs"))).toHaveLength(
      1,
    );
    isFree = true;
    await pass(2000);
    expect(Object.keys(fake.kernel.ruleset)).toEqual(["ip"]);
  });

  test("programs nothing after it was stopped while it waited for another daemon", async () => {
    const { fake, daemon, pass } = await start({ lock: { take: async () => false, release: () => {} } });
    await daemon.stop();
    await pass(2000);
    expect(fake.runs).toEqual([]);
  });

  test("lists nothing from the kernel after the start in a dry run", async () => {
    const { fake, kernel, pass } = await start({ dryRun: true });
    const listed = fake.count("list");
    await pass(62_000);
    expect([fake.count("list"), kernel.started]).toEqual([listed, []]);
  });
});
