import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { type ApiPort, apiListText, apiService, apiSlice } from "../support/api-objects.ts";
import { bundle } from "../support/command.ts";
import { serveEcho } from "../support/held-connection.ts";
import { createLab, type Lab, type RunningCommand } from "../support/lab/lab.ts";
import type { Probe } from "../support/lab/outcome.ts";
import { TELLS_STATE_OF_DELETED } from "../support/linux-release.ts";
import { schemaErrors } from "../support/output-schema.ts";
import { PATIENCE } from "../support/patience.ts";
import type { StubObject } from "../support/stub-api/selectors.ts";

/** Returns a Service and its slice, whose endpoints are pods named by their addresses. */
function served(
  name: string,
  clusterIP: string,
  pods: readonly string[],
  port: ApiPort,
  spec: Readonly<Record<string, unknown>> = {},
): readonly [StubObject, StubObject] {
  const slice = apiSlice(name, pods, [port]);
  const endpoints = slice.endpoints as { readonly addresses: readonly string[] }[];
  const named = endpoints.map((one) => ({
    ...one,
    targetRef: { kind: "Pod", namespace: "shop", name: podName(one.addresses[0] ?? "") },
  }));
  return [apiService(name, { clusterIP, ports: [port], spec }), { ...slice, endpoints: named }];
}

const podName = (address: string) => `pod-${address.replaceAll(/[.:]+/g, "-")}`;

const [POD1, POD2] = ["10.244.1.11", "10.244.1.12"];
const [POD1_6, POD2_6] = ["fd00:244:1::11", "fd00:244:1::12"];
const OBJECTS = [
  served("web", "10.96.7.1", [POD1, POD2], { port: 80, nodePort: 30_080 }),
  served("web6", "fd00:10:96::71", [POD1_6, POD2_6], { port: 80, nodePort: 30_081 }),
  served("dns", "10.96.7.2", [POD1, POD2], { port: 53, protocol: "UDP", targetPort: 5353 }),
  served("dns6", "fd00:10:96::72", [POD1_6], { port: 53, protocol: "UDP", targetPort: 5353 }),
  served("self", "10.96.7.3", [POD1], { port: 80 }),
  served("sticky", "10.96.7.4", [POD1, POD2], { port: 80 }, { sessionAffinity: "ClientIP" }),
  served("none", "10.96.7.5", [], { port: 80 }),
  served("closed", "10.96.7.6", [POD1], { port: 80, targetPort: 7999 }),
  served("echo", "10.96.7.7", [POD2], { port: 7000, targetPort: 7000 }),
];

/** The connections of a client, and what the command says of them. */
interface Row {
  readonly what: string;
  readonly probe: Omit<Probe, "id" | "n">;
  readonly service: string;
  readonly end: string;
  readonly pods: readonly string[];
}

const tcp = { proto: "tcp", port: 80 } as const;
const udp = { proto: "udp", port: 53 } as const;
const both = [POD1, POD2];
const ROWS: readonly Row[] = [
  {
    what: "TCP",
    probe: { from: "pod3", to: "10.96.7.1", ...tcp },
    service: "web",
    end: "closed",
    pods: both,
  },
  {
    what: "TCP, IPv6",
    probe: { from: "pod3", to: "fd00:10:96::71", ...tcp },
    service: "web6",
    end: "closed",
    pods: [POD1_6, POD2_6],
  },
  {
    what: "UDP",
    probe: { from: "pod4", to: "10.96.7.2", ...udp },
    service: "dns",
    end: "expired",
    pods: both,
  },
  {
    what: "UDP, IPv6",
    probe: { from: "pod4", to: "fd00:10:96::72", ...udp },
    service: "dns6",
    end: "expired",
    pods: [POD1_6],
  },
  {
    what: "a NodePort from outside",
    probe: { from: "ext", to: "192.0.2.2", proto: "tcp", port: 30_080 },
    service: "web",
    end: "closed",
    pods: both,
  },
  {
    what: "a NodePort from outside, IPv6",
    probe: { from: "ext", to: "fd00:c0::2", proto: "tcp", port: 30_081 },
    service: "web6",
    end: "closed",
    pods: [POD1_6, POD2_6],
  },
  {
    what: "a pod that reaches itself",
    probe: { from: "pod1", to: "10.96.7.3", ...tcp },
    service: "self",
    end: "closed",
    pods: [POD1],
  },
  {
    what: "session affinity",
    probe: { from: "pod5", to: "10.96.7.4", ...tcp },
    service: "sticky",
    end: "closed",
    pods: both,
  },
  {
    what: "an endpoint that refuses",
    probe: { from: "pod5", to: "10.96.7.6", ...tcp },
    service: "closed",
    end: TELLS_STATE_OF_DELETED ? "refused-by-endpoint" : "unanswered",
    pods: [POD1],
  },
];

/** Connections of each row. */
const COUNT = 5;

/** A line of the command. */
interface Line {
  readonly event: string;
  readonly [field: string]: unknown;
}
interface Connection extends Line {
  readonly service: string;
  readonly client: { readonly address: string; readonly pod: string };
  readonly destination: { readonly address: string; readonly port: number };
  readonly endpoint: { readonly address: string; readonly pod: string };
  readonly seconds?: number;
  readonly sent?: { readonly packets: number; readonly bytes: number };
  readonly received?: { readonly packets: number; readonly bytes: number };
}

let lab: Lab;
let directory: string;
const FLAGS = [
  "--hostname-override=node-1",
  "--cluster-cidr=10.244.0.0/16,fd00:244::/32",
  "--nodeport-addresses=192.0.2.0/24,fd00:c0::/64",
];

function commandLine(name: string, ...flags: readonly string[]): [string, ...string[]] {
  return [process.execPath, bundle, name, ...flags, `--from=${join(directory, "objects.json")}`, ...FLAGS];
}

async function nodeSetting(name: string, value: number): Promise<void> {
  await lab.mustRun("node", ["sh", "-c", `echo ${value} > /proc/sys/net/netfilter/nf_conntrack_${name}`]);
}

/** Counts the packets and bytes of a client in its own namespace, as its kernel sends and receives them. */
async function countAt({ from, to, proto, port }: Row["probe"], name: string): Promise<void> {
  const family = to.includes(":") ? "ip6" : "ip";
  const chain = (hook: string, address: string, end: string) =>
    `chain ${name}-${hook} { type filter hook ${hook} priority 0; ${family} ${address} ${to} ${proto} ${end} ${port} counter name "${name}-${hook}"; }`;
  const counters = ["output", "input"].map((hook) => `counter ${name}-${hook} {}`);
  const chains = [chain("output", "daddr", "dport"), chain("input", "saddr", "sport")];
  const rules = ["table inet watch {", ...counters, ...chains, "}"].join("\n");
  await lab.mustRun(from === "ext2" ? "ext" : from, ["nft", "-f", "-"], { input: rules });
}

async function countedAt({ from }: Row["probe"], name: string, hook: "output" | "input") {
  const text = await lab.mustRun(from === "ext2" ? "ext" : from, [
    "nft",
    "-j",
    "list",
    "counter",
    "inet",
    "watch",
    `${name}-${hook}`,
  ]);
  const objects = JSON.parse(text).nftables as { readonly counter?: { packets: number; bytes: number } }[];
  const { packets = 0, bytes = 0 } = objects.find(({ counter }) => counter)?.counter ?? {};
  return { packets, bytes };
}

/** A running `observe --follow`. */
class Following {
  readonly lines: Line[] = [];
  readonly others: string[] = [];
  readonly #command: RunningCommand;

  constructor(...flags: readonly string[]) {
    this.#command = lab.start("node", commandLine("observe", "--follow", ...flags));
    this.#command.onLine((line) => {
      if (line.startsWith("{")) this.lines.push(JSON.parse(line));
      else this.others.push(line);
    });
  }

  /** Resolves once no event is missed. */
  async ready(): Promise<this> {
    await vi.waitFor(() => expect(this.others.join("\n")).toContain("Ctrl-C ends it"), PATIENCE);
    return this;
  }

  of(event: string, service: string): Connection[] {
    return (this.lines as Connection[]).filter(
      (one) => one.event === event && one.service === `shop/${service}`,
    );
  }

  async stop(): Promise<number | undefined> {
    this.#command.kill("SIGINT");
    return (await this.#command.ended).exitCode;
  }
}

beforeAll(async () => {
  lab = await createLab();
  directory = await mkdtemp(join(tmpdir(), "observe-"));
  await writeFile(
    join(directory, "objects.json"),
    apiListText(
      OBJECTS.map(([service]) => service),
      OBJECTS.map(([, slice]) => slice),
    ),
  );
  await lab.mustRun("node", commandLine("apply"));
  for (const name of ["acct", "timestamp"]) await nodeSetting(name, 1);
  // UDP flows end by time.
  for (const name of ["udp_timeout", "udp_timeout_stream"]) await nodeSetting(name, 1);
  await serveEcho(lab, "pod2", 7000);
});
afterAll(async () => {
  await lab?.close();
  await rm(directory, { recursive: true });
});

function sum(connections: readonly Connection[], way: "sent" | "received") {
  const add = (field: "packets" | "bytes") =>
    connections.reduce((total, one) => total + (one[way]?.[field] ?? 0), 0);
  return { packets: add("packets"), bytes: add("bytes") };
}

describe("observe --follow", () => {
  let following: Following;
  /** The lines about the connections of a row. */
  const linesOf = (event: string, { service, probe }: Row) =>
    following
      .of(event, service)
      .filter(({ destination }) => destination.address === probe.to && destination.port === probe.port);

  beforeAll(async () => {
    for (const [index, { probe }] of ROWS.entries()) await countAt(probe, `row${index}`);
    following = await new Following("-o", "json", "--rate=10000").ready();
    await lab.observe(ROWS.map(({ probe }, index) => ({ id: String(index), n: COUNT, ...probe })));
    await lab.observe([{ id: "none", from: "pod3", to: "10.96.7.5", port: 80, proto: "tcp" }]);
    const reset = `const net = require("net"); const s = net.connect(7000, "10.96.7.7"); s.on("data", () => s.resetAndDestroy()); s.write("x".repeat(700));`;
    await lab.mustRun("pod6", [process.execPath, "-e", reset]);
    await vi.waitFor(
      async () => {
        // A listing makes the kernel delete expired flows.
        await lab.mustRun("node", ["conntrack", "-L"]);
        const open = ROWS.filter((row) => linesOf(row.end, row).length < linesOf("began", row).length);
        expect(open.map(({ what }) => what)).toEqual([]);
        expect(following.of("refused", "none")).toHaveLength(1);
      },
      { ...PATIENCE, interval: 500 },
    );
  });

  test.each(ROWS.map((row, index) => ({ ...row, name: `row${index}` })))(
    "tells each connection as its client made it, to the byte: $what",
    async (row) => {
      const [began, ended] = [linesOf("began", row), linesOf(row.end, row)];
      const made = row.service === "closed" ? 2 : COUNT;
      expect([began.length, ended.length]).toEqual([made, made]);
      expect(sum(ended, "sent")).toEqual(await countedAt(row.probe, row.name, "output"));
      expect(sum(ended, "received")).toEqual(await countedAt(row.probe, row.name, "input"));
      for (const one of [...began, ...ended]) {
        expect(row.pods).toContain(one.endpoint.address);
        expect(one.endpoint.pod).toBe(`shop/${podName(one.endpoint.address)}`);
      }
      for (const { seconds } of ended) expect(seconds).toBeLessThan(20);
    },
  );

  test("names the pod of a client that is an endpoint, and shows a masquerade", () => {
    const [hairpin] = following.of("closed", "self");
    expect(hairpin).toMatchObject({
      client: { address: POD1, pod: `shop/${podName(POD1)}` },
      endpoint: { address: POD1 },
      masqueradedAs: { address: expect.not.stringContaining(POD1) },
    });
  });

  test("has one endpoint for the connections of a client with session affinity", () => {
    expect(new Set(following.of("closed", "sticky").map(({ endpoint }) => endpoint.address)).size).toBe(1);
  });

  test("tells a reset", () => {
    const [reset] = following.of("reset", "echo");
    expect(reset?.sent?.bytes).toBeGreaterThan(700);
    expect(following.of("closed", "echo")).toEqual([]);
  });

  test("tells a refusal with its reason", () => {
    expect(following.of("refused", "none")).toMatchObject([
      {
        client: { address: "10.244.1.13" },
        packets: 2,
        cause: "no-endpoints",
        message: expect.stringContaining("endpoint"),
      },
    ]);
  });

  test("ends with a summary, and each line matches the schema", async () => {
    expect(await following.stop()).toBe(0);
    const summary = following.lines.at(-1);
    const made = ROWS.reduce((total, row) => total + linesOf("began", row).length, 1);
    expect(summary).toMatchObject({
      event: "summary",
      events: { began: made, reset: 1 },
      dropped: 0,
      omitted: 0,
    });
    for (const line of following.lines) expect(schemaErrors("observe", line)).toEqual([]);
  });
});

test("observe --follow of one Service and a low rate says how many lines it omitted", async () => {
  const following = await new Following("shop/web", "--rate=1").ready();
  await lab.observe([
    { id: "web", from: "pod3", to: "10.96.7.1", port: 80, proto: "tcp", n: 10 },
    { id: "self", from: "pod3", to: "10.96.7.3", port: 80, proto: "tcp", n: 1 },
  ]);
  await expect.poll(() => following.others.join("\n"), PATIENCE).toMatch(/^\.\.\. \d+ more lines omitted/m);
  expect(await following.stop()).toBe(0);
  const text = following.others.join("\n");
  expect(text).toMatch(/^connections: 10 began, 10 closed; 0 packets refused in \d+s$/m);
  expect(text).toMatch(/\d+ lines omitted by --rate, but counted here/);
  expect(text).not.toContain("shop/self");
});

test("observe lists the open connections and the refusals of the last hour", async () => {
  const client = lab.start("pod6", [
    process.execPath,
    "-e",
    `require("net").connect(7000, "10.96.7.7").write("x");setInterval(() => {}, 1000);`,
  ]);
  const lines = async (...flags: readonly string[]) =>
    (await lab.mustRun("node", commandLine("observe", ...flags))).split("\n");
  await expect
    .poll(() => lines("shop/echo"), PATIENCE)
    .toContainEqual(
      expect.stringMatching(
        / open 10\.244\.1\.16:\d+ to shop\/echo port tcp-7000, endpoint shop\/pod-10-244-1-12: established, [\d.]+ s, \d+ B sent, \d+ B received$/,
      ),
    );
  expect(await lines("10.244.1.16", "--verdict=served")).toHaveLength(
    (await lines("shop/echo", "--verdict=served")).length,
  );
  expect((await lines("--verdict=refused")).join("\n")).toMatch(
    / refused 10\.244\.1\.13 to shop\/none port tcp-80: \d+ packets: /,
  );
  client.kill("SIGKILL");
});
