import { mkdir, readdir, readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { execa } from "execa";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import type { Explanation } from "../../src/inspect/explain/explanation.ts";
import { formatClassid } from "../../src/nft/canonical/constant.ts";
import { askDaemon } from "../../src/socket/daemon-client.ts";
import { bundle } from "../support/command.ts";
import { DaemonLab } from "../support/daemon-lab.ts";
import type { RunResult } from "../support/lab/lab.ts";
import type { RunningDaemon } from "../support/running-daemon.ts";
import { loadTown } from "../support/stub-api/town.ts";

const PATIENCE = { timeout: 60_000, interval: 50 };

describe("commands beside a running daemon", () => {
  let daemons: DaemonLab;
  let daemon: RunningDaemon;
  let socket: string;

  beforeAll(async () => {
    daemons = await DaemonLab.create();
    loadTown(daemons.cluster);
    socket = await daemons.file("daemon.sock", "").then((path) => `${path}.d/daemon.sock`);
    daemon = daemons.start([`--daemon-socket=${socket}`]);
    await daemons.converged();
  });
  afterAll(async () => {
    await daemon?.stop();
    await daemons?.close();
  });

  /** Runs a command on the node with only the socket's option. */
  function command(...args: readonly string[]): Promise<RunResult> {
    return daemons.lab.exec([process.execPath, bundle, ...args, `--daemon-socket=${socket}`]);
  }

  /** Runs a command while something is deleted as soon as the daemon has repaired it. */
  async function whileDeleting(what: readonly string[], args: readonly string[]): Promise<RunResult> {
    let isOver = false;
    const deleting = async () => {
      while (!isOver) await daemons.nft("delete", ...what).catch(() => {});
    };
    const deleted = deleting();
    try {
      return await command(...args);
    } finally {
      isOver = true;
      await deleted;
    }
  }

  test("diff gets options and objects from the daemon, and names both sides", async () => {
    const { exitCode, stdout, stderr } = await command("diff");
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
    expect(stdout.trimEnd().split("\n")).toEqual([
      "--- kernel",
      expect.stringMatching(/^\+\+\+ desired \(daemon on node-1, verified \d+ s ago\)$/),
      "no difference",
    ]);
  });

  test("explain --live finds no difference for any Service, without further flags", async () => {
    const { exitCode, stdout, stderr } = await command("explain", "--live", "--all", "-o", "json");
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
    const explanations: Explanation[] = JSON.parse(stdout).explanations;
    expect(explanations.length).toBeGreaterThan(50);
    expect(explanations.filter(({ differences }) => differences?.length !== 0)).toEqual([]);
    expect(explanations.filter(({ verdict }) => verdict.cause === "not-programmed")).toEqual([]);
    expect((await command("explain", "--live", "10.96.0.10:53/udp")).stdout).toMatch(
      /^rules in the kernel, compared with desired \(daemon on node-1, /,
    );
  });

  test("explain --live follows the tables of other software as the daemon lists them, without an nft of its own", async () => {
    const table =
      "table ip bench { set s { type ipv4_addr; }; chain f { type filter hook forward priority 0; drop; }; }";
    await daemons.nft(table);
    try {
      const { exitCode, stdout, stderr } = await command(
        "explain",
        "--live",
        "10.96.0.10:53/udp",
        "--nft-path=/nowhere/nft",
      );
      expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
      expect(stdout).toContain("table ip bench chain f");
    } finally {
      await daemons.nft("delete", "table", "ip", "bench");
    }
  });

  test("explain names a Service of another proxy, which the daemon does not store", async () => {
    for (const asked of ["10.96.2.9:80", "edge/not-ours"]) {
      const { exitCode, stdout, stderr } = await command("explain", asked);
      expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
      expect(stdout.replaceAll(/\s+/g, " ")).toMatch(
        /edge\/not-ours(?:, which)? is handled by another proxy/,
      );
    }
  });

  test("diff and explain name an element that another program deleted", async () => {
    const element = ["element", "ip", "nft-proxy", "lists"];
    const id = (await daemons.kernel()).ip?.sets.get("lists")?.elements.get("10.96.0.10 . udp . 53");
    /** Repeats a command if the daemon had repaired the element when the command read it. */
    const without = async (
      args: readonly string[],
      isNamed: (result: RunResult) => boolean,
    ): Promise<void> => {
      await vi.waitFor(async () => {
        const result = await whileDeleting([...element, "{ 10.96.0.10 . udp . 53 }"], args);
        expect(isNamed(result)).toBe(true);
      }, PATIENCE);
    };
    await without(["diff"], ({ exitCode, stdout }) => exitCode === 1 && stdout.includes("dns/kube-dns"));
    const missing = "missing in the kernel: lists { 10.96.0.10 . udp . 53";
    await without(["explain", "--live", "10.96.0.10:53/udp"], ({ stdout }) => stdout.includes(missing));
    await daemons.nft("add", ...element, `{ 10.96.0.10 . udp . 53 : ${formatClassid(Number(id))} }`);
    await daemons.converged();
  });

  test("config prints the daemon's options, dump its desired state, doctor its health", async () => {
    const config = await command("config");
    expect(config.stdout).toContain("# effective configuration of the daemon on node-1\n");
    expect(config.stdout).toContain("clusterCIDR: 10.244.0.0/16,fd00:244::/32");
    const dump = await command("dump", "-o", "nft");
    expect(dump.stdout).toMatch(/^# desired \(daemon on node-1, /);
    expect(dump.stdout).toContain("10.244.0.0/16");
    const doctor = await command("doctor", "-o", "json");
    expect(JSON.parse(doctor.stdout).findings).toContainEqual(
      expect.objectContaining({
        check: "daemon",
        level: "ok",
        found: expect.stringContaining("last synced"),
      }),
    );
  });

  test("version names the running daemon's version", async () => {
    const { exitCode, stdout } = await command("version", "-o", "json");
    const { nftProxy, daemon } = JSON.parse(stdout);
    expect([exitCode, daemon]).toEqual([
      0,
      expect.objectContaining({ version: nftProxy, nodeName: "node-1", socket }),
    ]);
  });

  test("cleanup refuses while the daemon runs, names the tables with --dry-run, and removes them with --force", async () => {
    const refused = await command("cleanup");
    expect(refused).toMatchObject({ exitCode: 2, stdout: "" });
    expect(refused.stderr).toContain("another nft-proxy runs in this network namespace");
    expect(await command("cleanup", "--dry-run")).toMatchObject({
      exitCode: 0,
      stdout: "would remove: ip nft-proxy, ip6 nft-proxy",
    });
    await daemons.converged();
    expect(await command("cleanup", "--force")).toMatchObject({
      exitCode: 0,
      stdout: "removed: ip nft-proxy, ip6 nft-proxy",
    });
    await daemons.converged();
  });

  test("apply refuses while the daemon runs, changes nothing, and applies with --force", async () => {
    const one = await daemons.file(
      "one.yaml",
      "apiVersion: v1\nkind: Service\nmetadata: { namespace: a, name: b }\nspec: { clusterIP: 10.96.9.9, ports: [{ port: 80 }] }\n",
    );
    const handles = () => daemons.nft("-a", "list", "table", "ip", "nft-proxy");
    const before = await handles();
    const refused = await command("apply", "--from", one);
    expect(refused).toEqual({ exitCode: 2, stdout: "", stderr: expect.any(String) });
    expect(refused.stderr).toContain("another nft-proxy runs in this network namespace");
    expect(refused.stderr).toContain("nothing was applied\n  hint: stop it first; --force");
    expect(await handles()).toBe(before);
    expect(await command("apply", "--from", one, "--force")).toMatchObject({
      exitCode: 0,
      stdout: expect.stringMatching(/^applied for 1 Service/),
    });
    await daemons.converged();
  });

  test("support-bundle collects everything in one archive, without a name or an address with --redact", async () => {
    const directory = `${socket}.bundle`;
    await mkdir(directory);
    const path = join(directory, "a.tar.gz");
    const texts = async (...flags: readonly string[]): Promise<Map<string, string>> => {
      const { exitCode, stderr } = await command("support-bundle", path, ...flags);
      expect({ exitCode, stderr: stderr.replace(/^note: .*$/, "") }).toEqual({ exitCode: 0, stderr: "" });
      await execa("tar", ["-xzf", path], { cwd: directory });
      const names = await readdir(join(directory, "nft-proxy-support"));
      const read = names.map(async (name) => [
        name,
        await readFile(join(directory, "nft-proxy-support", name), "utf8"),
      ]);
      return new Map((await Promise.all(read)) as [string, string][]);
    };
    const plain = await texts();
    const files = [
      "committed.json",
      "daemon.log",
      "desired.json",
      "doctor.json",
      "kernel-ip.json",
      "kernel-ip6.json",
    ];
    expect([...plain.keys()].sort()).toEqual([
      ...files,
      "metrics.txt",
      "options.yaml",
      "pending.json",
      "state.json",
      "versions.json",
    ]);
    expect([...plain.values()].filter((text) => text.startsWith("unavailable"))).toEqual([]);
    expect(plain.get("desired.json")).toContain("10.96.0.10");
    const commands = (name: string) => JSON.parse(plain.get(name) ?? "").nftables;
    expect([...commands("kernel-ip.json"), ...commands("kernel-ip6.json")]).toEqual(
      commands("committed.json"),
    );
    expect(plain.get("daemon.log")).toContain("nft-proxy starts");
    const redactedTexts = await texts("--redact");
    for (const [name, text] of redactedTexts)
      if (name.endsWith(".json")) expect(() => JSON.parse(text), name).not.toThrow();
    // The version of socat has four numbers, as an address has.
    const redacted = [...redactedTexts.values()].join("\n").replace(/(?<=socat\W+)[\d.]+/g, "");
    expect(redacted).not.toMatch(/kube-dns-|\bfrontend\b|\bshop\b|node-2/);
    const addresses = redacted.match(/\b\d{1,3}(?:\.\d{1,3}){3}\b/g) ?? [];
    expect(new Set(addresses)).toEqual(
      new Set(addresses.filter((one) => one.startsWith("127.") || one === "0.0.0.0")),
    );
    expect(redacted).not.toMatch(/\bfd00:/);
    expect(redacted).toContain("ip4-1");
  });

  test("support-bundle has the kernel's tables as they are, without an element that another program deleted", async () => {
    const element = ["element", "ip", "nft-proxy", "cluster-ips"];
    const kernelTable = async () => {
      const path = `${socket}.changed.tar.gz`;
      const bundled = await whileDeleting([...element, "{ 10.96.0.10 }"], ["support-bundle", path]);
      expect(bundled.exitCode).toBe(0);
      const { stdout } = await execa("tar", ["-xzOf", path, "nft-proxy-support/kernel-ip.json"]);
      const elements = JSON.parse(stdout).nftables.flatMap(
        ({ add }: { add?: { element?: { name: string; elem: string[] } } }) =>
          add?.element?.name === "cluster-ips" ? add.element.elem : [],
      );
      return elements;
    };
    // The daemon may have repaired it in the meantime.
    await vi.waitFor(async () => {
      const elements = await kernelTable();
      expect(elements).toContain("10.96.1.3");
      expect(elements).not.toContain("10.96.0.10");
    }, PATIENCE);
    await daemons.converged();
  });

  test("support-bundle --redact fails if the daemon does not send the names to replace", async () => {
    const state = await askDaemon(socket, "state");
    const server = createServer(({ url }, response) => {
      if (url === "/v1/state") response.end(JSON.stringify(state));
      else response.writeHead(500).end();
    });
    await new Promise<void>((resolve) => server.listen(`${socket}.mute`, resolve));
    try {
      const asked = (...args: readonly string[]) =>
        daemons.lab.exec([
          process.execPath,
          bundle,
          "support-bundle",
          `--daemon-socket=${socket}.mute`,
          ...args,
        ]);
      expect(await asked("--redact", "-")).toMatchObject({
        exitCode: 2,
        stderr: expect.stringContaining(
          "cannot redact, because the names of the cluster's objects are unknown",
        ),
      });
      expect(await asked(`${socket}.tar.gz`)).toMatchObject({ exitCode: 0 });
    } finally {
      server.close();
    }
  });

  test("config with options on the command line does not query the daemon", async () => {
    const { stdout } = await command("config", "--cluster-cidr=10.0.0.0/8");
    expect(stdout).toContain("clusterCIDR: 10.0.0.0/8");
    expect(stdout).not.toContain("daemon on");
  });
});
