import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import type { NamedStory } from "../../src/inspect/trace/named-story.ts";
import { apiListText, apiService, apiSlice } from "../support/api-objects.ts";
import { bundle } from "../support/command.ts";
import { createLab, type Lab, type RunningCommand } from "../support/lab/lab.ts";
import { addressesOf } from "../support/lab/topology.ts";
import { schemaErrors } from "../support/output-schema.ts";

const PORT = { port: 80, targetPort: 8080 };
const FLAGS = ["--hostname-override=node-1", "--cluster-cidr=10.244.0.0/16,fd00:244::/32"];

const PATIENCE = { timeout: 60_000 } as const;

let lab: Lab;
let directory: string;
let objects: string;

beforeAll(async () => {
  lab = await createLab();
  directory = await mkdtemp(join(tmpdir(), "trace-"));
  objects = `--from=${join(directory, "objects.json")}`;
  const services = [
    apiService("cart", { clusterIP: "10.96.7.7", ports: [PORT] }),
    apiService("none", { clusterIP: "10.96.7.8", ports: [PORT] }),
  ];
  await writeFile(
    join(directory, "objects.json"),
    apiListText(services, [apiSlice("cart", ["10.244.1.11"], [PORT])]),
  );
  const { exitCode, stderr } = await lab.exec([process.execPath, bundle, "apply", objects, ...FLAGS]);
  if (exitCode !== 0) throw new Error(stderr);
});
afterAll(async () => {
  await lab?.close();
  await rm(directory, { recursive: true });
});
beforeEach(() => lab.exec(["nft", "destroy", "table", "inet", "other"]));

async function traceTables(): Promise<readonly string[]> {
  const { stdout } = await lab.exec(["nft", "list", "tables", "ip"]);
  return stdout.match(/nft-proxy-trace-\S+/g) ?? [];
}

/** Returns the `nft monitor` processes of a trace. Its process id is the end of its table's name. */
async function monitorsOf(table: string): Promise<readonly string[]> {
  const follower = `NFT_PROXY_STARTED_BY=${table.slice(table.lastIndexOf("-") + 1)}`;
  const found = await Promise.all(
    (await readdir("/proc")).map(async (pid) => {
      const environment = await readFile(`/proc/${pid}/environ`, "utf8").catch(() => "");
      return environment.split("\0").includes(follower) ? [pid] : [];
    }),
  );
  return found.flat();
}

/** Starts a trace, and resolves when its rules are in place. */
async function start(
  flags: readonly string[],
  source = objects,
): Promise<RunningCommand & { readonly stories: NamedStory[] }> {
  const before = await traceTables();
  const command = lab.start("node", [
    process.execPath,
    bundle,
    "trace",
    source,
    "-o",
    "json",
    ...FLAGS,
    ...flags,
  ]);
  const stories: NamedStory[] = [];
  command.onLine((line) => {
    // The command prints notices on standard error.
    if (/^(?:note|warning): /.test(line)) return;
    expect(schemaErrors("trace", JSON.parse(line))).toEqual([]);
    stories.push(JSON.parse(line));
  });
  await vi.waitFor(async () => {
    const name = (await traceTables()).find((one) => !before.includes(one));
    const { stdout } = await lab.exec(["nft", "list", "set", "ip", name ?? "", "active"]);
    expect(stdout).toMatch(/tcp|icmp/);
  }, PATIENCE);
  return { ...command, stories };
}

/** Runs a trace during one probe and returns its stories. */
async function storiesOf(
  flags: readonly string[],
  probe: { from: "pod2" | "ext"; to: string; proto?: "ping" },
  source?: string,
): Promise<NamedStory[]> {
  const trace = await start([...flags, "--duration=60s"], source);
  await lab.probe([{ id: "only", port: 80, proto: "tcp", n: 1, wait: 0.5, ...probe }]);
  await vi.waitFor(() => expect(trace.stories).not.toEqual([]), PATIENCE);
  trace.kill("SIGTERM");
  expect((await trace.ended).exitCode).toBe(0);
  expect(await traceTables()).toEqual([]);
  return trace.stories;
}

describe("trace", () => {
  test("follows a served packet through nft-proxy's chains, with the Service and its endpoint", async () => {
    const [first] = await storiesOf(["--service=shop/cart"], { from: "pod2", to: "10.96.7.7" });
    expect(first).toMatchObject({
      flags: ["syn"],
      input: "pod2",
      source: { address: "10.244.1.12" },
      destination: { address: "10.96.7.7", port: 80, name: "Service shop/cart port tcp-80 (80/tcp)" },
      end: { kind: "passed" },
      message: "passed every chain of nftables; it goes to 10.244.1.11:8080",
    });
    const rules = first?.stages.flatMap((stage) => stage.rules.map(({ means }) => means ?? "")) ?? [];
    expect(rules).toContain("a Service with endpoints");
  });

  test("follows a ping with --proto icmp to the node that answers, and traces no connections then", async () => {
    const apply = [process.execPath, bundle, "apply", objects, ...FLAGS] as const;
    expect((await lab.exec([...apply, "--answer-ping", "--bind-address=192.0.2.2"])).exitCode).toBe(0);
    const flags = ["--to=10.96.7.7", "--proto=icmp", "--answer-ping", "--bind-address=192.0.2.2"];
    const [first, ...others] = await storiesOf(flags, { from: "pod2", to: "10.96.7.7", proto: "ping" });
    expect([others, await lab.exec(apply)]).toMatchObject([[], { exitCode: 0 }]);
    expect(first).toMatchObject({
      protocol: "icmp",
      destination: { address: "10.96.7.7", port: 0 },
      end: { kind: "passed" },
      message: "passed every chain of nftables; it goes to 192.0.2.2 (this node)",
    });
    const rules = first?.stages.flatMap((stage) => stage.rules.map(({ means }) => means ?? "")) ?? [];
    expect(rules).toContain("an address of a Service with endpoints");
  });

  test("names the table of other software that drops a packet, and prints its rule", async () => {
    const chain =
      "type filter hook forward priority 10; policy accept; ip daddr 10.244.1.11 tcp dport 8080 drop;";
    await lab.exec(["nft", "-f", "-"], { input: `table inet other { chain guard { ${chain} }; }` });
    const [first] = await storiesOf(["--to=10.96.7.7", "--port=80"], { from: "pod2", to: "10.96.7.7" });
    expect(first).toMatchObject({
      end: {
        kind: "dropped",
        table: "other",
        chain: "guard",
        rule: "ip daddr 10.244.1.11 tcp dport 8080 drop",
      },
      message: "dropped by a rule of chain guard in table inet other, which is not nft-proxy's",
    });
  });

  test("names the chain that rejects packets to a Service without endpoints, and the cause", async () => {
    const [first] = await storiesOf(["--from-ip=10.244.1.12"], { from: "pod2", to: "10.96.7.8" });
    expect(first).toMatchObject({
      end: { kind: "rejected", table: "nft-proxy", chain: "reject-chain" },
      message:
        "rejected by a rule of chain reject-chain in table ip nft-proxy, which is nft-proxy's: no endpoints",
    });
  });

  test("reports that the kernel stopped a packet after prerouting, because it has no route", async () => {
    await lab.exec(["ip", "route", "add", "unreachable", "10.77.0.0/16"]);
    const [first] = await storiesOf(["--to=10.77.0.1", "--port=80"], { from: "pod2", to: "10.77.0.1" });
    expect(first).toMatchObject({
      end: { kind: "stopped", after: "prerouting" },
      message: "stopped by the kernel after prerouting, outside nftables: no route to 10.77.0.1",
    });
    await lab.exec(["ip", "route", "del", "unreachable", "10.77.0.0/16"]);
  });

  test("reports that the reverse path filter stopped a packet", async () => {
    const route = (device: string, filter: number) => {
      const setting = `echo ${filter} > /proc/sys/net/ipv4/conf/pod2/rp_filter`;
      return lab.exec(["sh", "-c", `${setting}; ip route replace 10.244.1.12 dev ${device}`]);
    };
    await route("pod3", 1);
    const [first] = await storiesOf(["--to=10.96.7.7", "--port=80"], { from: "pod2", to: "10.96.7.7" });
    expect(first).toMatchObject({
      end: { kind: "stopped", after: "prerouting" },
      message: expect.stringContaining(
        "the reverse path filter (rp_filter=1): 10.244.1.12 is routed to pod3",
      ),
    });
    await route("pod2", 0);
  });

  test("without an API server names the kernel's rules, but neither Services nor pods", async () => {
    const flags = ["--to=10.96.7.7", "--port=80", "--daemon-socket="];
    const probe = { from: "pod2", to: "10.96.7.7" } as const;
    const [first] = await storiesOf(flags, probe, "--master=http://127.0.0.1:1");
    expect(first).toMatchObject({
      destination: { address: "10.96.7.7", port: 80, name: "" },
      end: { kind: "passed" },
      message: "passed every chain of nftables; it goes to 10.244.1.11:8080",
    });
    const rules = first?.stages.flatMap((stage) => stage.rules.map(({ means }) => means ?? "")) ?? [];
    expect(rules).toContain("a Service with endpoints");
  });

  test("ignores packets that another program traces, and reports those that return over loopback", async () => {
    const services = [apiService("here", { clusterIP: "10.96.7.9", ports: [PORT] })];
    const file = join(directory, "here.json");
    await writeFile(file, apiListText(services, [apiSlice("here", [addressesOf("node").v4], [PORT])]));
    await lab.exec([process.execPath, bundle, "apply", `--from=${file}`, ...FLAGS]);
    const chain = "type filter hook output priority -400; policy accept; meta nftrace set 1;";
    const guard = "type filter hook input priority 10; policy accept; ct original ip daddr 10.96.7.9 drop;";
    await lab.exec(["nft", "-f", "-"], {
      input: `table inet other { chain tracer { ${chain} }; chain guard { ${guard} }; }`,
    });
    const trace = await start(["--to=10.96.7.9", "--port=80", "--duration=60s"]);
    const probe = { from: "node", proto: "tcp", n: 1, wait: 0.5 } as const;
    await lab.probe([{ ...probe, id: "other", to: "10.96.7.7", port: 80 }]);
    await lab.probe([{ ...probe, id: "own", to: "10.96.7.9", port: 80 }]);
    await vi.waitFor(() => expect(trace.stories.length).toBeGreaterThanOrEqual(2), PATIENCE);
    trace.kill("SIGTERM");
    await trace.ended;
    const told = trace.stories.map(({ destination, end }) => `${destination.address} ${end.kind}`);
    expect([...new Set(told)].sort()).toEqual(["10.96.7.9 passed", "192.0.2.2 dropped"]);
    await lab.exec([process.execPath, bundle, "apply", objects, ...FLAGS]);
  });

  test("traces no other packets, and reports that it saw none", async () => {
    const flags = ["--to=10.96.7.7", "--port=81", "--duration=1s"];
    const { stdout } = await lab.exec([process.execPath, bundle, "trace", objects, ...FLAGS, ...flags]);
    expect(stdout).toBe("no matching packets within 1 s");
  });

  test("removes the tables and monitors of killed traces, as the daemon does, but not those of a running one", async () => {
    const killed = await start(["--to=10.96.7.7", "--port=80", "--duration=1h"]);
    killed.kill("SIGKILL");
    await killed.ended;
    const [left = "", ...others] = await traceTables();
    expect(others).toEqual([]);
    expect(await monitorsOf(left)).toHaveLength(1);
    const running = await start(["--to=10.96.7.7", "--port=80", "--duration=1h"]);
    expect(await traceTables()).toHaveLength(1);
    await vi.waitFor(async () => expect(await monitorsOf(left)).toEqual([]), PATIENCE);
    const second = await start(["--to=10.96.7.7", "--port=80", "--duration=1h"]);
    const both = await traceTables();
    expect(both).toHaveLength(2);
    for (const table of both) expect(await monitorsOf(table)).toHaveLength(1);
    for (const command of [running, second]) command.kill("SIGKILL");
    await Promise.all([running.ended, second.ended]);
    const daemon = lab.start("node", [process.execPath, bundle, "run", objects, ...FLAGS]);
    await vi.waitFor(async () => expect(await traceTables()).toEqual([]), PATIENCE);
    for (const table of both)
      await vi.waitFor(async () => expect(await monitorsOf(table)).toEqual([]), PATIENCE);
    daemon.kill("SIGTERM");
    await daemon.ended;
  });
});
