import { createHash } from "node:crypto";
import { chmodSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { afterAll, beforeAll, expect, test } from "vitest";
import { parse } from "yaml";

const directory = mkdtempSync(join(tmpdir(), "krew-"));
const plugin = join(directory, "kubectl-nft_proxy");

/**
 * A project with what the archive is made of, and a program that prints its arguments in place of the bundle.
 */
function project(): string {
  const copy = join(directory, "project");
  for (const path of ["scripts/make-krew.sh", "deploy/krew", "LICENSE", "package.json"]) {
    cpSync(path, join(copy, path), { recursive: true });
  }
  mkdirSync(join(copy, "dist"));
  writeFileSync(join(copy, "dist/nft-proxy.js"), "console.log(process.argv.slice(2).join());\n");
  writeFileSync(join(copy, "dist/THIRD_PARTY_LICENSES"), "");
  return copy;
}

beforeAll(async () => {
  const script = join(project(), "scripts/make-krew.sh");
  await execa(script, ["1.2.3", "https://example.org/v1.2.3", directory]);
  await execa("tar", ["-xzf", "nft-proxy-kubectl.tar.gz"], { cwd: directory });
  // A kubectl that prints its arguments, and knows one pod on node-2.
  const kubectl = `#!/bin/sh
case "$*" in
  *get*nodeName=node-8*) echo 'connection refused' >&2; exit 1 ;;
  *get*nodeName=node-9*) ;;
  *get*nodeName=node-2*) echo pod/nft-proxy-b ;;
  *get*) echo pod/nft-proxy-a ;;
  *) printf '%s|' "$@" ;;
esac
`;
  writeFileSync(join(directory, "kubectl"), kubectl);
  chmodSync(join(directory, "kubectl"), 0o755);
});
afterAll(() => rmSync(directory, { recursive: true }));

async function run(...args: readonly string[]) {
  const { exitCode, stdout, stderr } = await execa(plugin, args, {
    env: { PATH: `${directory}:${process.env.PATH}` },
    reject: false,
  });
  return { exitCode, stdout, stderr };
}

test("the krew manifest names the archive by its checksum", () => {
  const { spec } = parse(readFileSync(join(directory, "nft-proxy.yaml"), "utf8"));
  const archive = readFileSync(join(directory, "nft-proxy-kubectl.tar.gz"));
  expect(spec.version).toBe("v1.2.3");
  expect(spec.platforms).toHaveLength(1);
  expect(spec.platforms[0]).toMatchObject({
    uri: "https://example.org/v1.2.3/nft-proxy-kubectl.tar.gz",
    sha256: createHash("sha256").update(archive).digest("hex"),
    bin: "kubectl-nft_proxy",
  });
});

test("the krew plugin runs fleet here, with the archive's own program", async () => {
  expect(await run("fleet", "--help")).toEqual({ exitCode: 0, stdout: "fleet,--help", stderr: "" });
});

test("the krew plugin runs support-bundle --cluster here, whose requests a pod may not make", async () => {
  expect((await run("support-bundle", "all.tgz", "--cluster")).stdout).toBe(
    "support-bundle,all.tgz,--cluster",
  );
  expect((await run("support-bundle", "-")).stdout).toContain("exec|pod/nft-proxy-a|--|");
});

test("the krew plugin runs explain in the pod of the node that --node names, with its other arguments unchanged", async () => {
  const program = "-n|kube-system|exec|pod/nft-proxy-b|--|node|/usr/local/lib/nft-proxy/nft-proxy.mjs";
  expect(await run("explain", "--node", "node-2", "shop/cart", "--from-ip", "a b")).toEqual({
    exitCode: 0,
    stdout: `${program}|explain|shop/cart|--from-ip|a b|`,
    stderr: "",
  });
  expect((await run("diff", "--node=node-2")).stdout).toBe(`${program}|diff|`);
});

test("the krew plugin asks the first running pod without --node, and names it", async () => {
  const { stdout, stderr } = await run("explain", "10.96.0.10:53");
  expect(stdout).toContain("exec|pod/nft-proxy-a|");
  expect(stderr).toContain("asking pod/nft-proxy-a; --node NAME");
});

test("the krew plugin ends with exit code 2 for a node without a running pod", async () => {
  expect(await run("diff", "--node", "node-9")).toEqual({
    exitCode: 2,
    stdout: "",
    stderr: expect.stringContaining("no running pod of nft-proxy in kube-system on node node-9"),
  });
});

test("the krew plugin ends with exit code 2 for a --node without a name, and with kubectl's message if kubectl fails", async () => {
  expect(await run("diff", "--node")).toEqual({
    exitCode: 2,
    stdout: "",
    stderr: "kubectl-nft_proxy: --node needs the name of a node",
  });
  expect(await run("diff", "--node", "node-8")).toEqual({
    exitCode: 2,
    stdout: "",
    stderr: "connection refused",
  });
});
