import { mkdtemp, rm, stat, writeFile } from "node:fs/promises";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { resolveOptions } from "../../../src/config/resolve.ts";
import { createDaemon, type Daemon } from "../../../src/daemon/daemon.ts";
import { jsonPieces } from "../../../src/daemon/daemon-socket.ts";
import { INITIAL_STATE, RESOURCE_NAMES, type SourceHandlers } from "../../../src/kube/source.ts";
import { type DaemonAnswers, daemonPath } from "../../../src/socket/daemon-protocol.ts";
import { service, slice } from "../../support/build.ts";
import { FakeNft } from "../../support/fake-nft.ts";
import { idleHost } from "../../support/idle-host.ts";
import { idleOrigin } from "../../support/idle-origin.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { memoryLogger } from "../../support/memory-logger.ts";

const UNSERVED = { ignored: [], loadBalancers: [], problem: "the API server is away" };

let directory: string;
const daemons: Daemon[] = [];
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "nft-proxy-socket-"));
});
afterEach(async () => {
  for (const daemon of daemons.splice(0)) await daemon.stop();
  await rm(directory, { recursive: true });
});

/** Starts a daemon with a fake kernel that has programmed one Service and serves the socket `path`. */
async function start(path: string) {
  const fake = new FakeNft();
  const clock = new ManualClock(100_000);
  const logger = memoryLogger();
  let handlers: SourceHandlers | undefined;
  const listen = { address: "127.0.0.1", port: 0 };
  const daemon = await createDaemon({
    options: {
      ...resolveOptions().options,
      daemonSocket: path,
      healthzBindAddress: listen,
      metricsBindAddress: listen,
      masqueradeAll: true,
    },
    nodeName: "node-1",
    version: "1.2.3",
    hostVersions: { nft: "nftables v1.1.3", kernel: "6.18.1", socat: "1.8.0.3", nodejs: "v20.20.2" },
    nft: fake.nft,
    ownCommits: fake.ownCommits,
    tables: fake.tables,
    system: {
      clock,
      readHost: async () => ({ families: ["ip"], addresses: { ip: [], ip6: [] }, local: [] }),
      ...idleHost(),
    },
    logger,
    objects: idleOrigin((given) => {
      handlers = given;
      const state = INITIAL_STATE;
      const states = { services: state, endpointslices: state, nodes: state, servicecidrs: state };
      return { start: () => {}, stop: () => {}, states: () => states };
    }, UNSERVED),
    flags: new Map(),
    dryRun: false,
    recentLog: () => ["a line\n"],
  });
  daemons.push(daemon);
  await daemon.start();
  // The daemon begins its work once it has the lock of the network namespace.
  await new Promise((resolve) => setImmediate(resolve));
  handlers?.services.onUpsert("default/web", service(), undefined);
  for (const name of RESOURCE_NAMES) handlers?.[name].onSynced();
  const pass = async (ms: number) => {
    clock.advance(ms);
    await new Promise((resolve) => setTimeout(resolve, 20));
  };
  await pass(0);
  return { daemon, logger, handlers, fake, pass };
}

function ask<Name extends keyof DaemonAnswers>(socketPath: string, name: Name): Promise<DaemonAnswers[Name]> {
  return new Promise((resolve, reject) => {
    const asked = request({ socketPath, path: daemonPath(name), agent: false }, (answer) => {
      let text = "";
      answer.setEncoding("utf8").on("data", (part) => (text += part));
      answer.on("end", () =>
        answer.statusCode === 200 ? resolve(JSON.parse(text)) : reject(new Error(text)),
      );
    });
    asked.on("error", reject).end();
  });
}

describe("the daemon socket", () => {
  test("is accessible to its owner only, in a directory that the daemon makes, and is removed when the daemon stops", async () => {
    const path = join(directory, "run", "daemon.sock");
    const { daemon } = await start(path);
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    expect((await stat(join(directory, "run"))).mode & 0o777).toBe(0o700);
    await daemon.stop();
    await expect(stat(path)).rejects.toThrow("ENOENT");
  });

  test("answers with options, node context, objects and sync state", async () => {
    const path = join(directory, "daemon.sock");
    await start(path);
    const state = await ask(path, "state");
    expect(state).toMatchObject({
      version: "1.2.3",
      nodeName: "node-1",
      netNamespace: "net:[1]",
      options: { masqueradeAll: true },
      nodeContext: [{ family: "ip", masqueradeAll: true }],
      objects: { services: 1, endpointSlices: 0, isNodeKnown: false },
      sync: { syncs: 1, failures: 0, lastSyncedAt: 100_000, verifiedAt: 100_000 },
    });
    expect(state.sync).not.toHaveProperty("pendingSince");
    expect(await ask(path, "objects")).toMatchObject({ services: [{ name: "default/web" }], nodes: [] });
    expect(JSON.stringify(await ask(path, "committed"))).toContain("10.96.0.10");
    expect(await ask(path, "pending")).toEqual({ nftables: [] });
    expect(await ask(path, "unserved")).toMatchObject({ problem: "the API server is away" });
  });

  test("answers with an empty list as long as the kernel has refused nothing", async () => {
    const path = join(directory, "daemon.sock");
    await start(path);
    expect(await ask(path, "refusals")).toEqual({ refusals: [] });
  });

  test("distinguishes desired, pending and committed rules while syncs fail", async () => {
    const path = join(directory, "daemon.sock");
    const { fake, handlers, pass } = await start(path);
    fake.timesOut = true;
    handlers?.endpointslices.onUpsert("default/web-ip", slice({ endpoints: ["10.244.2.11"] }), undefined);
    await pass(1000);
    expect((await ask(path, "state")).sync).toMatchObject({ failures: 1, pendingSince: 100_000 });
    expect((await ask(path, "state")).sync.problem).toContain("did not end within");
    for (const name of ["desired", "pending"] as const) {
      expect(JSON.stringify(await ask(path, name))).toContain("10.244.2.11");
    }
    expect(JSON.stringify(await ask(path, "committed"))).not.toContain("10.244.2.11");
  });

  test("replaces the file that an earlier process left behind", async () => {
    const path = join(directory, "daemon.sock");
    await writeFile(path, "");
    await start(path);
    expect((await ask(path, "state")).nodeName).toBe("node-1");
  });

  test("is not opened by a second daemon while the first one listens", async () => {
    const path = join(directory, "daemon.sock");
    await start(path);
    const { logger } = await start(path);
    expect(logger.lines.map(({ fields }) => fields.error)).toContain(`another process listens on ${path}`);
    expect((await ask(path, "state")).nodeName).toBe("node-1");
  });

  test("is not opened for an empty path", async () => {
    const { logger } = await start("");
    expect(logger.lines.map(({ fields }) => fields.server)).not.toContain("daemon socket");
  });
});

describe("jsonPieces", () => {
  test("yields the text of JSON.stringify, whatever the value", () => {
    const small = fc.oneof(fc.jsonValue({ maxDepth: 2 }), fc.constant(undefined));
    const list = fc.integer({ min: 0, max: 250 }).map(numbers);
    const fields = fc.dictionary(fc.string(), fc.oneof(small, list), { maxKeys: 4 });
    const mixed = fc.tuple(list, fields, list).map(([before, one, after]) => [...before, one, ...after]);
    const value = fc.record({ a: small, b: fc.array(fc.oneof(list, fields, mixed), { maxLength: 4 }) });
    fc.assert(
      fc.property(value, (one) => {
        expect([...jsonPieces(one)].join("")).toBe(JSON.stringify(one));
      }),
    );
  });

  test("writes other iterables as arrays", () => {
    const pairs = new Map(numbers(150).map((number) => [number, "x"]));
    const text = [...jsonPieces({ pairs, none: new Set() })].join("");
    expect(JSON.parse(text)).toEqual({ pairs: [...pairs], none: [] });
  });

  test.each([
    ["long arrays", { first: numbers(1000), second: "x" }],
    ["a long array within one of several short ones", [[1], { deep: [numbers(1000)] }, [2]]],
    ["long arrays among many items", [...numbers(150), { elements: numbers(1000) }, ...numbers(150)]],
  ])("divides %s into pieces of at most 100 items", (_, value) => {
    const pieces = [...jsonPieces(value)];
    expect(JSON.parse(pieces.join(""))).toEqual(value);
    expect(Math.max(...pieces.map((piece) => piece.split(",").length))).toBeLessThanOrEqual(102);
    expect(pieces.length).toBeGreaterThan(9);
  });
});

function numbers(count: number): number[] {
  return Array.from({ length: count }, (_, index) => index);
}
