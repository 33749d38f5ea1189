import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Ajv } from "ajv";
import { execaSync } from "execa";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { findingsJson } from "../../src/cli/commands/doctor.ts";
import { resolveOptions } from "../../src/config/resolve.ts";
import { ALL_FEATURES } from "../../src/features/selection.ts";
import { examineHost } from "../../src/inspect/doctor/examine.ts";
import type { HostFinding } from "../../src/inspect/doctor/finding.ts";
import { doctorHost } from "../../src/inspect/doctor/host-facts.ts";
import { type RunProcess, runProcess } from "../../src/kernel/process.ts";
import { townObjects } from "../support/command.ts";
import { nftProxy } from "../support/nft-proxy.ts";

const KUBE_PROXY = readFileSync(new URL("../fixtures/kube-proxy/town.nft", import.meta.url), "utf8");
const TRANSACTION = readFileSync(new URL("../fixtures/town/transaction.json", import.meta.url), "utf8");

const validate = new Ajv().compile(
  JSON.parse(readFileSync(new URL("../../schemas/doctor.schema.json", import.meta.url), "utf8")),
);

const GUARD = `table inet guard {
  chain early { type filter hook prerouting priority -300; policy drop; }
  chain in { type filter hook input priority 0; policy drop; }
  chain out { type filter hook output priority 0; policy accept; }
}
`;

const NO_NFT = {
  check: "nft",
  level: "fault",
  found: 'cannot start nft at "/nowhere/nft" (ENOENT)',
  means: "no rule can be programmed",
  action: expect.stringContaining("--nft-path"),
};

function nft(args: readonly string[], input = ""): void {
  execaSync("nft", [...args], { input });
}

async function examine(port = 1): Promise<HostFinding[]> {
  const { options } = resolveOptions({ configText: configuration(port) });
  return await examineHost(doctorHost, options);
}

function configuration(port: number): string {
  return `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
healthzBindAddress: 127.0.0.1:${port}
`;
}

function of(findings: readonly HostFinding[], check: string): readonly HostFinding[] {
  return findings.filter((finding) => finding.check === check);
}

beforeEach(() => nft(["flush", "ruleset"]));
afterEach(() => nft(["flush", "ruleset"]));

describe("the doctor", () => {
  test("finds nothing wrong on a node without other software", async () => {
    const findings = await examine();
    for (const check of [
      "nft",
      "kernel",
      "kernel-modules",
      "capabilities",
      "socat",
      "other-proxy",
      "firewall",
    ] as const) {
      expect(of(findings, check), check).toMatchObject([{ level: "ok" }]);
    }
    for (const { check } of findings)
      expect(check).not.toMatch(/^(connection-timeouts|client-limits|fast-path)$/);
    expect(validate(JSON.parse(findingsJson(findings)))).toBe(true);
  });

  test.each<[string, string, string]>([
    ["fast-path", '"flow"', "flow tables"],
    ["connection-timeouts", '"ct timeout"', "connection timeouts"],
    ["client-limits", '"ct count"', "limits of connections in sets"],
  ])("warns that %s has no effect if nft or the kernel does not support it", async (check, word, lacked) => {
    const { options } = resolveOptions({ configText: configuration(1) });
    const run: RunProcess = (path, args, input, limits) =>
      runProcess(input.includes(word) ? "false" : path, args, input, limits);
    const findings = await examineHost(
      { ...doctorHost, run },
      { ...options, features: ALL_FEATURES, settings: { ...options.settings, fastPath: true } },
    );
    expect(of(findings, check)).toMatchObject([
      {
        level: "warning",
        found: expect.stringContaining(`lacks: ${lacked}`),
        means: expect.stringContaining("has no effect"),
        action: expect.stringContaining("load or build the kernel module"),
      },
    ]);
    expect(validate(JSON.parse(findingsJson(findings)))).toBe(true);
  });

  test("warns if nft cannot check the options", async () => {
    const { options } = resolveOptions({ configText: configuration(1) });
    const run: RunProcess = (path, args, input, limits) =>
      runProcess(input.includes('"ct timeout"') ? "/nowhere/nft" : path, args, input, limits);
    const findings = await examineHost({ ...doctorHost, run }, { ...options, features: ALL_FEATURES });
    expect(of(findings, "nft")).toMatchObject([
      { level: "ok" },
      { level: "warning", found: 'cannot start nft at "nft" (ENOENT)' },
    ]);
  });

  test("warns of kube-proxy's tables and of a firewall that drops by default", async () => {
    nft(["-f", "-"], KUBE_PROXY);
    nft(["-f", "-"], GUARD);
    const findings = await examine();
    expect(of(findings, "other-proxy")).toMatchObject([
      { level: "warning", found: "kube-proxy's tables exist: ip kube-proxy, ip6 kube-proxy" },
    ]);
    expect(of(findings, "firewall").map(({ found }) => found)).toEqual([
      "table inet guard, chain early (hook prerouting, priority -300) drops by default",
      "table inet guard, chain in (hook input, priority 0) drops by default",
    ]);
  });

  test("exits with 1 for a fault, and with 2 for an unknown output format", async () => {
    const { exitCode, stdout } = await nftProxy(["doctor", "--output=json", "--nft-path=/nowhere/nft"]);
    expect(exitCode).toBe(1);
    expect(JSON.parse(stdout)).toMatchObject({ worst: "fault", findings: expect.arrayContaining([NO_NFT]) });
    expect(await nftProxy(["doctor", "--output=xml"])).toMatchObject({
      exitCode: 2,
      stderr: expect.stringContaining("must be text, json or yaml"),
    });
  });

  test("lists the changes of a migration, from kube-proxy's rules and Services in files", async () => {
    nft(["-f", "-"], KUBE_PROXY);
    const files = ["--from", townObjects("town"), "--hostname-override=node-1"];
    const { exitCode, stdout } = await nftProxy(["doctor", "--migration", "--output=json", ...files]);
    const { findings } = JSON.parse(stdout) as { findings: HostFinding[] };
    expect(of(findings, "migration")).toMatchObject([
      { level: "ok", found: expect.stringMatching(/mode nftables\)$/) },
    ]);
    expect(of(findings, "migration-affinity")).toMatchObject([
      { found: expect.stringContaining("shop/cart") },
    ]);
    expect(validate(JSON.parse(stdout))).toBe(true);
    expect(exitCode).toBe(findings.some(({ level }) => level === "fault") ? 1 : 0);
  });

  test("answers although the daemon gives no usable answer, and does not judge options that it does not know", async () => {
    const directory = mkdtempSync(join(tmpdir(), "doctor-"));
    const path = join(directory, "socket");
    const server = createServer((_, response) => response.writeHead(404).end());
    await new Promise<void>((resolve) => server.listen(path, resolve));
    try {
      const { stdout, stderr } = await nftProxy(["doctor", "--output=json", `--daemon-socket=${path}`]);
      const { findings } = JSON.parse(stdout) as { findings: HostFinding[] };
      expect(of(findings, "daemon")).toMatchObject([
        { level: "fault", found: expect.stringContaining(`${path} gives no usable answer: HTTP status 404`) },
      ]);
      expect(of(findings, "cluster-cidr")).toEqual([]);
      expect(stderr).toContain("warning: the daemon at");
      expect(stderr).toContain("options of this node's daemon are unknown");
    } finally {
      server.close();
      rmSync(directory, { recursive: true });
    }
  });

  test("reports rules without a running daemon, and the daemon if one runs", async () => {
    nft(["-j", "-f", "-"], TRANSACTION);
    expect(of(await examine(), "daemon")).toMatchObject([
      { level: "warning", means: expect.stringContaining("no daemon updates them") },
    ]);
    const synced = "2026-01-01T00:00:00Z";
    const status = { IPv4: { lastUpdated: synced } };
    const body = { currentTime: "2026-01-01T00:00:30Z", lastVerified: synced, status };
    const server = createServer((_, response) => response.end(JSON.stringify(body)));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    try {
      const findings = await examine((server.address() as AddressInfo).port);
      expect(of(findings, "daemon")).toMatchObject([
        { level: "ok", found: expect.stringContaining("last synced 30 s ago") },
      ]);
    } finally {
      server.close();
    }
  });
});
