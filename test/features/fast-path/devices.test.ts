import { describe, expect, test, vi } from "vitest";
import { VANISHED } from "../../../src/features/connection-life/rules.ts";
import { FastPathDevices } from "../../../src/features/fast-path/devices.ts";
import { nftProgram } from "../../../src/kernel/nft.ts";
import type { RunProcess } from "../../../src/kernel/process.ts";
import type { CommandObject, Transaction } from "../../../src/nft/ast/json.ts";
import type { Ruleset } from "../../../src/nft/ast/ruleset.ts";
import { creation, type TableDelta } from "../../../src/nft/delta.ts";
import { renderAll, service, testNodeContext } from "../../support/build.ts";
import { FakeHostFiles } from "../../support/fake-host-files.ts";
import { withoutListing } from "../../support/fake-nft.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { memoryLogger } from "../../support/memory-logger.ts";
import { type ReportOptions, syncReport } from "../../support/sync-report.ts";

const context = testNodeContext({ settings: { fastPath: true }, resetVanished: true });
const { ruleset } = renderAll({ services: [service()] }, context).state;
const { ip } = ruleset;
if (ip === undefined) throw new Error("no IPv4");
const vanished = ip.sets.get(VANISHED)?.spec;
if (vanished === undefined) throw new Error("no set of vanished endpoints");
const MADE_ANEW: TableDelta = creation(ip, "create");

const ENDED = {
  signal: undefined,
  stdout: "",
  startError: undefined,
  timedOut: false,
  tooMuchOutput: false,
  aborted: false,
  durationMs: 0,
};

/**
 * The flow tables of a fake kernel that keeps the names of removed interfaces, and refuses some interfaces.
 */
class FakeFlowtables {
  devices: Partial<Record<string, string[]>> = { ip: [], ip6: [] };
  readonly transactions: Transaction[] = [];
  refuses: string | undefined;

  readonly run: RunProcess = async (_path, args, input) => {
    const result = { ...ENDED, exitCode: 0, stderr: "" };
    if (!args.includes("-f")) return { ...result, stdout: this.#listing() };
    const transaction = withoutListing(JSON.parse(input));
    this.transactions.push(transaction);
    if (this.refuses !== undefined && input.includes(`"${this.refuses}"`)) {
      return { ...result, exitCode: 1, stderr: "Error: Could not process rule: No such file or directory" };
    }
    for (const command of transaction.nftables) this.#apply(command);
    return result;
  };

  #listing(): string {
    const objects = Object.entries(this.devices).map(([family, dev]) => ({
      flowtable: { family, table: "nft-proxy", name: "fast-path", handle: 1, hook: "ingress", prio: 0, dev },
    }));
    return JSON.stringify({ nftables: [{ metainfo: {} }, ...objects] });
  }

  #apply(command: Transaction["nftables"][number]): void {
    const object = Object.values(command)[0] as CommandObject;
    if (!("flowtable" in object)) return;
    const { family, dev = [] } = object.flowtable;
    if ("delete" in command) this.devices[family] = [];
    else this.devices[family] = [...new Set([...(this.devices[family] ?? []), ...dev])];
  }
}

function setUp(interfaces: string[], isSynced = true) {
  const kernel = new FakeFlowtables();
  const clock = new ManualClock();
  const logger = memoryLogger();
  const host = { interfaces, excluded: [] as string[] };
  /** Set by tests to a sync that is under way. */
  const view: { given: Ruleset | undefined; sync: Promise<void> } = {
    given: ruleset,
    sync: Promise.resolve(),
  };
  const daemon = {
    nft: nftProgram({ path: "nft", run: kernel.run }),
    clock,
    logger,
    files: new FakeHostFiles({}),
    settings: {},
    betweenSyncs: async (change: (tables: Ruleset) => Promise<void>) => {
      await view.sync;
      if (view.given !== undefined) await change(view.given);
    },
  };
  const devices = new FastPathDevices(daemon, async () => {
    return { devices: host.interfaces, excluded: host.excluded };
  });
  const synced = (outcome: ReportOptions = {}) =>
    devices.synced(syncReport({ nodeContext: context, ...outcome }));
  if (isSynced) synced();
  const poll = async (times = 1) => {
    for (let n = 0; n < times; n++) {
      clock.advance(2000);
      while (clock.timers === 0) await new Promise((resolve) => setImmediate(resolve));
    }
  };
  return { kernel, clock, logger, host, view, devices, synced, poll };
}

const kindsOf = ({ nftables }: Transaction) =>
  nftables.map((command) => `${Object.keys(command)[0]} ${Object.keys(Object.values(command)[0] ?? {})[0]}`);

describe("FastPathDevices", () => {
  test("adds the host's interfaces to the flow tables of both families, and later new ones", async () => {
    const { kernel, host, devices, poll } = setUp(["eth0"]);
    await poll();
    expect(kernel.devices).toEqual({ ip: ["eth0"], ip6: ["eth0"] });
    host.interfaces = ["eth0", "veth1"];
    await poll();
    expect(kernel.devices).toEqual({ ip: ["eth0", "veth1"], ip6: ["eth0", "veth1"] });
    expect(kernel.transactions.map(kindsOf)).toEqual([
      ["add flowtable", "add flowtable"],
      ["add flowtable", "add flowtable"],
    ]);
    expect(devices.metrics.nft_proxy_fast_path_interfaces.samples()).toEqual([{ labels: {}, value: 2 }]);
    expect(devices.card()).toMatchObject({ tone: "good", value: "2 interfaces" });
  });

  test("sends nothing while nothing changes, and within ten seconds restores interfaces that another program removed", async () => {
    const { kernel, poll } = setUp(["eth0"]);
    await poll(3);
    expect(kernel.transactions).toHaveLength(1);
    kernel.devices = { ip: [], ip6: ["eth0"] };
    await poll(5);
    expect(kernel.devices.ip).toEqual(["eth0"]);
  });

  test("sends nothing before the first sync, and nothing after it was stopped", async () => {
    const { kernel, clock, devices, synced } = setUp(["eth0"], false);
    clock.advance(20_000);
    devices.stop();
    synced();
    expect(clock.timers).toBe(0);
    expect(kernel.transactions).toEqual([]);
    expect(devices.card()).toMatchObject({ tone: "idle", value: "0 interfaces" });
  });

  test("says nothing of a reading that fails after it was stopped", async () => {
    const { clock, logger, view, devices } = setUp(["eth0"]);
    view.sync = Promise.reject(new Error("nft was killed"));
    clock.advance(2000);
    devices.stop();
    await new Promise((resolve) => setImmediate(resolve));
    expect(logger.lines).toEqual([]);
  });

  test("waits while a repair is due", async () => {
    const { kernel, view, poll } = setUp(["eth0"]);
    view.given = undefined;
    await poll(6);
    expect(kernel.transactions).toEqual([]);
  });

  test("waits for the sync under way", async () => {
    const { kernel, clock, view } = setUp(["eth0"]);
    let end = () => {};
    view.sync = new Promise((resolve) => {
      end = resolve;
    });
    clock.advance(2000);
    await new Promise((resolve) => setImmediate(resolve));
    expect(kernel.transactions).toEqual([]);
    end();
    await vi.waitFor(() => expect(kernel.devices.ip).toEqual(["eth0"]));
  });

  test("recreates flow tables that have devices of earlier options, but only at the start", async () => {
    const { kernel, host, poll } = setUp(["eth0"]);
    kernel.devices = { ip: ["eth0", "eth1"], ip6: ["eth0"] };
    await poll();
    expect(kernel.devices).toEqual({ ip: ["eth0"], ip6: ["eth0"] });
    expect(kindsOf(kernel.transactions[0] as Transaction)).toEqual([
      "flush chain",
      "delete flowtable",
      "add flowtable",
      "add rule",
    ]);
    host.interfaces = [];
    await poll(6);
    expect(kernel.transactions, "an interface that is gone stays").toHaveLength(1);
  });

  test("recreates flow tables after many of their interfaces have been removed", async () => {
    const names = Array.from({ length: 65 }, (_, n) => `veth${n}`);
    const { kernel, host, poll } = setUp(names);
    await poll();
    host.interfaces = ["eth0"];
    await poll();
    expect(kernel.devices).toEqual({ ip: ["eth0"], ip6: ["eth0"] });
  });

  test("compares the interfaces after a full sync that recreated tables", async () => {
    const { kernel, synced, poll } = setUp(["eth0"]);
    await poll();
    kernel.devices = { ip: [], ip6: ["eth0"] };
    synced({ kind: "full", deltas: [MADE_ANEW] });
    await poll();
    expect(kernel.devices.ip).toEqual(["eth0"]);
  });

  test("removes all connections from the fast path when an endpoint vanishes, so that the rules see its connections", async () => {
    const { kernel, synced, poll } = setUp(["eth0"]);
    await poll();
    const elements = [{ spec: vanished, deleted: [], added: [{ key: "10.0.0.1 . 80", value: "" }] }];
    synced({ kind: "partial", deltas: [{ ...MADE_ANEW, mode: "change", elements }] });
    await poll();
    expect(kindsOf(kernel.transactions[1] as Transaction)).toContain("delete flowtable");
    await poll(2);
    expect(kernel.transactions).toHaveLength(2);
  });

  test("does so once after a start with vanished endpoints, as an earlier process may not have", async () => {
    const { kernel, view, poll } = setUp(["eth0"]);
    kernel.devices = { ip: ["eth0"], ip6: ["eth0"] };
    const set = { spec: vanished, elements: new Map([["10.0.0.1 . 80", ""]]) };
    view.given = { ...ruleset, ip: { ...ip, sets: new Map([...ip.sets, [VANISHED, set]]) } };
    await poll(3);
    expect(kernel.transactions.map(kindsOf)).toEqual([expect.arrayContaining(["delete flowtable"])]);
    expect(kernel.devices).toEqual({ ip: ["eth0"], ip6: ["eth0"] });
  });

  test("retries without a warning if an interface has disappeared in the meantime, and warns of other refusals", async () => {
    const { kernel, host, logger, poll } = setUp(["eth0", "veth1"]);
    kernel.refuses = "veth1";
    const gone = Object.getOwnPropertyDescriptor(host, "interfaces");
    let reads = 0;
    Object.defineProperty(host, "interfaces", { get: () => (reads++ === 0 ? ["eth0", "veth1"] : ["eth0"]) });
    await poll(2);
    expect(kernel.devices).toEqual({ ip: ["eth0"], ip6: ["eth0"] });
    expect(logger.lines.filter(({ level }) => level === "warn")).toEqual([]);
    Object.defineProperty(host, "interfaces", gone ?? {});
    await poll();
    expect(logger.lines.filter(({ level }) => level === "warn")).toHaveLength(1);
  });

  test("warns once that there is no room for some interfaces, and names some of them", async () => {
    const { host, logger, poll } = setUp(["eth0"]);
    host.excluded = Array.from({ length: 44 }, (_, n) => `veth${n}`);
    await poll(2);
    expect(logger.lines.filter(({ level }) => level === "warn")).toMatchObject([
      { fields: { most: 1, excluded: 44, such: host.excluded.slice(0, 10) } },
    ]);
  });
});
