import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { nftProxy } from "../support/nft-proxy.ts";

const fixture = (name: string) => fileURLToPath(new URL(`../fixtures/kube-proxy/${name}`, import.meta.url));

async function file(text: string): Promise<string> {
  const path = join(await mkdtemp(join(tmpdir(), "config-")), "config.yaml");
  await writeFile(path, text);
  return path;
}

describe("config", () => {
  test("prints the effective configuration, which has the same effect as a file", async () => {
    const flags = ["--cluster-cidr=10.244.0.0/16", "--masquerade-all", "--affinity-map-size=5", "--v=4"];
    const { exitCode, stdout, stderr } = await nftProxy(["config", ...flags]);
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
    expect(stdout).toContain("clusterCIDR: 10.244.0.0/16\n");
    expect(stdout).toContain("affinityMapSize: 5\n");
    expect((await nftProxy(["config", `--config=${await file(stdout)}`])).stdout).toBe(stdout);
  });

  test("--defaults prints the defaults, whatever other flags are given", async () => {
    const { stdout } = await nftProxy(["config"]);
    expect((await nftProxy(["config", "--defaults", "--masquerade-all"])).stdout).toBe(stdout);
    expect(stdout).toContain("masqueradeAll: false\n");
  });

  test.each(["defaults.yaml", "kubeadm-config.yaml"])("--validate accepts kube-proxy's %s", async (name) => {
    const { exitCode, stdout, stderr } = await nftProxy(["config", `--validate=${fixture(name)}`]);
    const warnings = stderr.split("\n").filter((line) => line.startsWith("warning: ")).length;
    const counted = warnings === 0 ? "" : `, ${warnings} warning${warnings === 1 ? "" : "s"}`;
    expect([exitCode, stdout]).toEqual([0, `${fixture(name)}: valid${counted}`]);
    for (const line of stderr.split("\n")) expect(line).toMatch(/^$|^warning: /);
  });

  test("--validate --strict refuses a misspelt field, which kube-proxy would ignore", async () => {
    const lines =
      "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nclusterCDIR: 10.0.0.0/8\n";
    const path = await file(lines);
    const lenient = await nftProxy(["config", `--validate=${path}`]);
    expect([lenient.exitCode, lenient.stdout]).toEqual([0, `${path}: valid, 1 warning`]);
    const strict = await nftProxy(["config", `--validate=${path}`, "--strict"]);
    expect([strict.exitCode, strict.stdout]).toEqual([1, `${path}: not valid with --strict, 1 warning`]);
    expect(strict.stderr).toContain("clusterCDIR");
    const valid = await nftProxy(["config", `--validate=${fixture("defaults.yaml")}`, "--strict"]);
    expect(valid.exitCode).toBe(valid.stderr === "" ? 0 : 1);
  });

  test("--validate reports errors with exit code 2", async () => {
    const lines =
      "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nconntrack: { min: -1 }\n";
    const { exitCode, stdout, stderr } = await nftProxy(["config", `--validate=${await file(lines)}`]);
    expect([exitCode, stdout]).toEqual([2, ""]);
    expect(stderr).toContain("conntrack.min: ");
    expect((await nftProxy(["config", "--validate=/nowhere/config"])).exitCode).toBe(2);
  });
});
