import { readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Ajv } from "ajv";
import { execa } from "execa";
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { bundle, SHORT_TIMEOUTS, townFlags, townObjects } from "../support/command.ts";
import { nftProxy } from "../support/nft-proxy.ts";

const schema = JSON.parse(
  readFileSync(new URL("../../schemas/diff-report.schema.json", import.meta.url), "utf8"),
);
const isReport = new Ajv({ strict: true }).compile(schema);

const flush = () => execa("nft", ["flush", "ruleset"]);
beforeEach(flush);
afterEach(flush);

const from = (town: "town" | "town-after") => ["--from", townObjects(town), ...townFlags];

describe("diff", () => {
  test("shows everything before an apply, nothing after it, and later changes", async () => {
    const nothing = await nftProxy(["diff", ...from("town")]);
    expect(nothing.exitCode).toBe(1);
    expect(nothing.stdout).toContain("+ table ip nft-proxy");
    await nftProxy(["apply", ...from("town")]);
    expect(await nftProxy(["diff", ...from("town")])).toMatchObject({
      exitCode: 0,
      stdout: "--- kernel\n+++ desired (objects from files, options given here)\nno difference",
    });
    const changed = await nftProxy(["diff", ...from("town-after")]);
    expect(changed.exitCode).toBe(1);
    expect(changed.stdout).toMatch(
      /^shop\/redis\n {2}~ 10\.96\.1\.3:6379\/tcp\n {6}\+ 10\.244\.2\.16:6379\n/m,
    );
  });

  test("shows changes by Service against other files, without asking the kernel", async () => {
    const args = ["diff", ...from("town-after"), "--against", townObjects("town"), "--nft-path=/nowhere/nft"];
    const { exitCode, stdout } = await nftProxy(args);
    expect(exitCode).toBe(1);
    expect(stdout).toContain("shop/multi\n  - 10.96.1.4:443/tcp: 2 endpoints\n");
    const same = await nftProxy(["diff", ...from("town"), "--against", townObjects("town")]);
    expect(same).toMatchObject({ exitCode: 0, stdout: expect.stringMatching(/\nno difference$/) });
  });

  test("prints JSON that matches its schema", async () => {
    const args = ["diff", ...from("town-after"), "--against", townObjects("town"), "--output=json"];
    const report = JSON.parse((await nftProxy(args)).stdout);
    expect(isReport(report) || isReport.errors).toBe(true);
    expect(report.same).toBe(false);
    expect(isReport({ ...report, same: "no" }), "the schema can refuse").toBe(false);
  });

  test("compares manifests that have no cluster IPs yet", async () => {
    const manifest = (port: number) => `{apiVersion: v1, kind: Service, metadata: {name: web},
      spec: {selector: {app: web}, type: NodePort, ports: [{port: 80, nodePort: ${port}}]}}`;
    const directory = await mkdtemp(join(tmpdir(), "nft-proxy-diff-"));
    onTestFinished(() => rm(directory, { recursive: true }));
    await writeFile(`${directory}/old.yaml`, manifest(30080));
    await writeFile(`${directory}/new.yaml`, manifest(30081));
    const args = ["diff", "--from", `${directory}/new.yaml`, "--against", `${directory}/old.yaml`];
    const { exitCode, stdout, stderr } = await nftProxy(args);
    expect({ exitCode, stderr }).toEqual({
      exitCode: 1,
      stderr: expect.stringContaining("placeholder addresses"),
    });
    expect(stdout).toContain(
      "default/web\n  - NodePort 30080/tcp (IPv4): refused\n  + NodePort 30081/tcp (IPv4): refused\n",
    );
  });

  test.each([
    ["no nft", ["--nft-path=/nowhere/nft"], "cannot start nft at"],
    ["no such file", ["--against=/nowhere/objects"], "/nowhere/objects"],
    ["an unknown format", ["--output=xml"], "--output"],
  ])("ends with exit code 2 and the reason for %s", async (_, args, said) => {
    const { exitCode, stdout, stderr } = await nftProxy(["diff", ...from("town"), ...args]);
    expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: "" });
    expect(stderr).toContain(said);
  });

  describe("with an nft that lists without end", () => {
    /** nft, which lists no table to the end. */
    async function listingForever(): Promise<string> {
      const directory = await mkdtemp(join(tmpdir(), "nft-proxy-diff-"));
      onTestFinished(() => rm(directory, { recursive: true }));
      const path = `${directory}/nft`;
      await writeFile(
        path,
        '#!/bin/sh\ncase "$*" in *"list table"*) exec sleep 543.21;; esac\nexec nft "$@"\n',
        {
          mode: 0o755,
        },
      );
      return path;
    }
    const listings = async () =>
      (await execa("pgrep", ["-f", "^sleep 543.21"], { reject: false, lines: true })).stdout;

    test("ends with exit code 2, the reason and a remedy", async () => {
      await nftProxy(["apply", ...from("town")]);
      const args = ["diff", ...from("town"), `--nft-path=${await listingForever()}`];
      const command = [SHORT_TIMEOUTS, bundle, ...args];
      const { exitCode, stdout, stderr } = await execa(process.execPath, command, { reject: false });
      expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: "" });
      expect(stderr).toMatch(/^nft-proxy: nft did not end within 30 s\n {2}hint: /);
      expect(await listings()).toEqual([]);
    });

    test.each(["SIGINT", "SIGTERM", "SIGHUP"] as const)(
      "leaves no nft behind when %s ends it",
      async (signal) => {
        await nftProxy(["apply", ...from("town")]);
        const args = ["diff", ...from("town"), `--nft-path=${await listingForever()}`];
        const command = execa(process.execPath, [bundle, ...args], { reject: false });
        await vi.waitFor(async () => expect(await listings()).toHaveLength(1), {
          timeout: 20_000,
          interval: 50,
        });
        command.kill(signal);
        expect((await command).signal).toBe(signal);
        await vi.waitFor(async () => expect(await listings()).toEqual([]), { timeout: 5000, interval: 50 });
      },
    );
  });
});
