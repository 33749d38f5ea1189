import { expect, test } from "vitest";
import { resolveOptions } from "../../../src/config/resolve.ts";
import { createDaemon } from "../../../src/daemon/daemon.ts";
import type { Nft } from "../../../src/kernel/nft.ts";
import { INITIAL_STATE, RESOURCE_NAMES, type SourceHandlers } from "../../../src/kube/source.ts";
import type { SupportedOptions } from "../../../src/sync/supported-options.ts";
import { node, service } from "../../support/build.ts";
import { FakeHostFiles } from "../../support/fake-host-files.ts";
import { FakeNft } from "../../support/fake-nft.ts";
import { idleHost } from "../../support/idle-host.ts";
import { idleOrigin } from "../../support/idle-origin.ts";
import { NO_SERVERS } from "../../support/in-process-daemon.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { memoryLogger } from "../../support/memory-logger.ts";

const { options } = resolveOptions();
const settings = { ...options.settings, fastPath: true };

/** Returns the commands about flow tables of a daemon on a host with the interface eth0, in its first 5 s. */
async function flowtableCommands(given: Partial<SupportedOptions>): Promise<object[]> {
  const fake = new FakeNft();
  const flowtable = { family: "ip", table: "nft-proxy", name: "fast-path", hook: "ingress", prio: -1 };
  const nft: Nft = {
    path: "nft",
    commits: 0,
    apply: (transaction) => fake.nft.apply(transaction),
    check: (transaction) => fake.nft.check(transaction),
    list: async (args) =>
      args.includes("flowtables") ? JSON.stringify({ nftables: [{ flowtable }] }) : await fake.nft.list(args),
    stopReading: () => fake.nft.stopReading(),
  };
  const clock = new ManualClock(100_000);
  const files = new FakeHostFiles({ "/proc/net/dev": "\n\neth0: 1\n" });
  let handlers: SourceHandlers | undefined;
  const state = INITIAL_STATE;
  const daemon = await createDaemon({
    options: { ...options, ...NO_SERVERS, ...given },
    nodeName: "node-1",
    version: "test",
    hostVersions: { nft: "nftables v1.1.3", kernel: "6.18.1", socat: "1.8.0.3", nodejs: "v20.20.2" },
    ...{ nft, ownCommits: fake.ownCommits, tables: fake.tables, logger: memoryLogger() },
    system: {
      ...{ ...idleHost(), clock, files },
      readHost: async () => ({ families: ["ip"], addresses: { ip: ["192.0.2.2"], ip6: [] }, local: [] }),
    },
    objects: idleOrigin((made) => {
      handlers = made;
      const states = { services: state, endpointslices: state, nodes: state, servicecidrs: state };
      return { start: () => {}, stop: () => {}, states: () => states };
    }),
    dryRun: false,
    flags: new Map(),
    recentLog: () => [],
  });
  await daemon.start();
  const turns = async () => {
    for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
  };
  await turns();
  handlers?.nodes.onUpsert("node-1", node(), undefined);
  handlers?.services.onUpsert("default/web", service(), undefined);
  for (const name of RESOURCE_NAMES) handlers?.[name].onSynced();
  for (let second = 0; second < 5; second++) {
    clock.advance(1000);
    await turns();
  }
  await daemon.stop();
  return fake.transactions.flatMap(({ nftables }) =>
    nftables.filter((command) => "flowtable" in (Object.values(command)[0] ?? {})),
  );
}

test("a daemon with the fast path declares its flow table, and then adds the host's interfaces", async () => {
  const flowtable = { family: "ip", table: "nft-proxy", name: "fast-path", hook: "ingress", prio: -1 };
  expect(await flowtableCommands({ settings })).toEqual([
    { add: { flowtable } },
    { add: { flowtable: { ...flowtable, dev: ["eth0"] } } },
  ]);
});

test.each([
  ["without the option", {}],
  ["if nft or the kernel lacks flow tables", { settings, lacking: ["fast-path"] }],
])("a daemon has no flow table %s", async (_, given) => {
  expect(await flowtableCommands(given)).toEqual([]);
});
