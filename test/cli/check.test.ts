import { readFileSync } from "node:fs";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Ajv } from "ajv";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { townFlags, townObjects } from "../support/command.ts";
import { nftProxy } from "../support/nft-proxy.ts";

const schema = JSON.parse(
  readFileSync(new URL("../../schemas/check-report.schema.json", import.meta.url), "utf8"),
);
const isReport = new Ajv({ strict: true }).compile(schema);

const FAULTY = `apiVersion: v1
kind: Service
metadata: { namespace: shop, name: cart }
spec:
  clusterIP: 10.96.0.7
  selector: { app: cart }
  externalIPs: ["127.0.0.1"]
  ports: [{ port: 99999 }]
---
apiVersion: v1
kind: Service
metadata: { namespace: shop, name: "a,b:c%" }
spec: { clusterIP: 10.96.0.8, ports: [{ port: 80 }] }
---
apiVersion: v1
kind: Service
metadata: { namespace: shop, name: alone }
spec: { clusterIP: 10.96.0.9, ports: [{ port: 80 }] }
`;

let directory: string;
let faulty: string;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "nft-proxy-check-"));
  faulty = join(directory, "faulty.yaml");
  await writeFile(faulty, FAULTY);
});
afterAll(() => rm(directory, { recursive: true }));

const check = (...args: string[]) => nftProxy(["check", ...townFlags, ...args]);

/** A program in place of nft. */
async function program(name: string, text: string): Promise<string> {
  const path = join(directory, name);
  await writeFile(path, `#!/bin/sh\n${text}\n`);
  await chmod(path, 0o755);
  return path;
}

describe("check", () => {
  test.each(["town", "town-after"] as const)(
    "accepts the %s, by the kernel's own check too",
    async (town) => {
      const { exitCode, stdout, stderr } = await check("--from", townObjects(town), "--output=json");
      const report = JSON.parse(stdout);
      expect({ exitCode, stderr, valid: isReport(report), errors: isReport.errors }).toEqual({
        exitCode: 0,
        stderr: "",
        valid: true,
        errors: null,
      });
      expect(report).toMatchObject({ verdict: "ok", errors: 0, kernel: { kind: "accepted" } });
    },
  );

  test("reports every error of every file, one line each, with exit code 1", async () => {
    const broken = join(directory, "broken.yaml");
    await writeFile(broken, "kind: [\n");
    const { exitCode, stdout } = await check("--from", faulty, broken);
    expect(exitCode).toBe(1);
    expect(stdout.split("\n").map((line) => line.replaceAll(`${directory}/`, ""))).toEqual([
      expect.stringMatching(/^error: broken\.yaml:\d+: /),
      "error: faulty.yaml:7: Service shop/cart: spec.externalIPs[0] cannot be served at 127.0.0.1 [reserved-address]",
      "error: faulty.yaml:8: Service shop/cart: spec.ports[0].port must be <= 65535, not 99999 [invalid-value]",
      expect.stringMatching(
        /^error: faulty\.yaml:12 \(document 2\): Service shop\/a,b:c%: metadata\.name must be/,
      ),
      expect.stringMatching(
        /^warning: faulty\.yaml:18 \(document 3\): Service shop\/alone: spec has no selector/,
      ),
      expect.stringMatching(/^kernel: accepts the rules of 1 readable Service \(nftables v/),
      "refused: 1 Service and 0 EndpointSlices; 4 errors, 1 warning",
    ]);
  });

  test("prints a JSON report that matches its schema", async () => {
    const { stdout } = await check("--from", faulty, "--output=json");
    expect(isReport(JSON.parse(stdout)) || isReport.errors).toBe(true);
    expect(isReport({ ...JSON.parse(stdout), verdict: "perhaps" }), "the schema can refuse").toBe(false);
  });

  test("prints GitHub workflow commands with escaped values", async () => {
    const { stdout } = await check("--from", faulty, "--output=github");
    const lines = stdout.split("\n").filter((line) => line.startsWith("::"));
    expect(lines).toHaveLength(4);
    expect(lines[2]).toContain(
      `::error file=${faulty},line=12,title=Service shop/a%2Cb%3Ac%25::metadata.name must be`,
    );
    expect(lines[3]).toMatch(/^::warning file=.*,line=18,title=Service shop\/alone::spec has no selector/);
  });

  test("reports an unknown field as an error, and with --no-strict as a warning", async () => {
    const text = `apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {selector: {app: web}, ports: [{port: 80}], externalTrafficPolice: Local}
`;
    const refused = await nftProxy(["check", "--from", "-"], text);
    expect(refused).toMatchObject({
      exitCode: 1,
      stdout: expect.stringContaining("did you mean externalTrafficPolicy?"),
    });
    const passed = await nftProxy(["check", "--from", "-", "--no-strict"], text);
    expect(passed).toMatchObject({ exitCode: 0, stdout: expect.stringContaining("0 errors, 1 warning") });
  });

  test("does not report what --exclude or an annotation excludes, but counts it", async () => {
    const spec = "{selector: {app: x}, type: NodePort, ports: [{port: 80, nodePort: 80}]}";
    const service = (name: string, annotations = "{}") =>
      `{apiVersion: v1, kind: Service, metadata: {name: ${name}, annotations: ${annotations}}, spec: ${spec}}`;
    const reason = '{ignore-check.nft-proxy.io/node-port-range: "our range begins at 80"}';
    const text = [service("a"), service("b"), service("c", reason)].join("\n---\n");
    const codes = async (...args: string[]) => {
      const { exitCode, stdout } = await nftProxy(["check", "--from=-", "--output=json", ...args], text);
      const { diagnostics, excluded } = JSON.parse(stdout);
      const found = diagnostics.map(({ object, code }: Record<string, string>) => `${object}: ${code}`);
      return { exitCode, excluded, found };
    };
    expect(await codes()).toEqual({
      exitCode: 1,
      excluded: 1,
      found: [
        "Service default/a: node-port-range",
        "Service default/b: node-port-range",
        "Service default/b: duplicate-node-port",
        "Service default/c: duplicate-node-port",
      ],
    });
    expect(await codes("--exclude=node-port-range,Service/default/b")).toEqual({
      exitCode: 1,
      excluded: 4,
      found: ["Service default/c: duplicate-node-port"],
    });
    const all = await codes("--exclude=node-port-range", "--exclude=duplicate-node-port");
    expect(all).toEqual({ exitCode: 0, excluded: 5, found: [] });
  });

  test("refuses an --exclude that names neither a code nor an object", async () => {
    const { exitCode, stderr } = await check("--from", faulty, "--exclude=duplicate-prt");
    expect({ exitCode, stderr }).toEqual({
      exitCode: 2,
      stderr: expect.stringContaining("did you mean duplicate-port?"),
    });
  });

  test("fails because of warnings only with --strict", async () => {
    const alone = FAULTY.slice(FAULTY.lastIndexOf("---\n") + 4);
    expect((await nftProxy(["check", "--from=-"], alone)).exitCode).toBe(0);
    const { exitCode, stdout } = await nftProxy(["check", "--from=-", "--strict"], alone);
    expect(exitCode).toBe(1);
    expect(stdout).toMatch(/^refused: .*; 0 errors, 1 warning; --strict refuses warnings/m);
  });

  test("names Services for which a shared budget is too small, the newest, and not those that fit", async () => {
    const services = [2022, 2021, 2023].map((year) => ({
      apiVersion: "v1",
      kind: "Service",
      metadata: { namespace: "shop", name: `of-${year}`, creationTimestamp: `${year}-01-01T00:00:00Z` },
      spec: { selector: { app: "x" }, clusterIP: `10.96.0.${year - 2000}`, ports: [{ port: 80 }] },
    }));
    const text = services.map((one) => JSON.stringify(one)).join("\n---\n");
    const { exitCode, stdout } = await nftProxy(["check", "--from=-", "--max-elements=4"], text);
    expect(exitCode).toBe(1);
    expect(stdout.match(/^error: .*$/gm)).toEqual([
      "error: standard input:5 (document 3): Service shop/of-2023: spec would be quarantined: all Services together can have 4 elements in the kernel (--max-elements), and this one has 2, 2 more than older ones leave [over-limit]",
    ]);
  });

  test("checks Services that have no cluster IP yet", async () => {
    const service = (name: string) => `{apiVersion: v1, kind: Service, metadata: {name: ${name}},
      spec: {selector: {app: x}, type: NodePort, ports: [{port: 80, nodePort: 30080}]}}\n---\n`;
    const { exitCode, stdout } = await nftProxy(["check", "--from=-"], `${service("one")}${service("two")}`);
    expect(exitCode).toBe(1);
    expect(stdout).toContain("nodePort 30080 belongs to Service default/one (standard input:1)");
    expect(stdout).toContain("1 error, 0 warnings");
    expect(stdout).toContain("2 Services without a cluster IP yet");
  });

  test("checks everything else without nft, and reports that", async () => {
    const { exitCode, stdout } = await check("--from", townObjects("town"), "--nft-path=/nowhere/nft");
    expect(exitCode).toBe(0);
    expect(stdout).toContain('kernel: not asked: cannot start nft at "/nowhere/nft"');
    expect(stdout).toMatch(/^ok: .*; 0 errors, 1 warning; the kernel was not asked$/m);
  });

  test.each([
    ["an empty directory", async () => await mkdtemp(join(directory, "empty-")), ""],
    ["other kinds of objects", async () => "-", "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}"],
    ["nothing from a pipe", async () => "-", ""],
  ])("does not pass with %s, unless that is excluded", async (_what, path, text) => {
    const args = ["check", "-f", await path()];
    const { exitCode, stdout } = await nftProxy(args, text);
    expect(exitCode).toBe(1);
    expect(stdout).toMatch(/^error: .*: no Service, .* was found: nothing was checked \[no-objects\]$/m);
    expect((await nftProxy([...args, "--exclude=no-objects"], text)).exitCode).toBe(0);
  });

  test("checks everything else with an nft that is too old, and names the missing feature", async () => {
    const refuses =
      'case "$*" in *version*) echo "nftables v1.0.6";; *) echo "Error: syntax error" >&2; exit 1;; esac';
    const old = await program("old-nft", refuses);
    const { exitCode, stdout } = await check("--from", townObjects("town"), `--nft-path=${old}`);
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(
      /^kernel: not asked: nft at ".*old-nft" or this kernel lacks: dnat to a map lookup/m,
    );
  });

  test("names the service port that the kernel refuses", async () => {
    const picky = `case "$*" in *version*) echo "nftables v9";;
      *) if grep -q '"10.96.1.2"'; then echo "Error: Could not process rule: Not supported" >&2; exit 1; fi;; esac`;
    const nft = await program("picky-nft", picky);
    const { exitCode, stdout } = await check("--from", townObjects("town"), `--nft-path=${nft}`);
    expect(exitCode).toBe(1);
    expect(stdout).toMatch(
      /^error: .*Service shop\/cart: items\[\d+\]\.spec the kernel refuses the rules of shop\/cart:/m,
    );
    expect(stdout).toContain("kernel: refuses the rules (nftables v9)");
  });

  test("names 20 diagnostics of an object, errors first, and counts the others", async () => {
    const ranges = Array.from({ length: 1000 }, (_, i) => `20.0.${i >> 8}.${i & 255}/24`);
    const spec = {
      type: "LoadBalancer",
      clusterIP: "10.96.0.7",
      ports: [{ port: 80 }],
      loadBalancerSourceRanges: ranges,
    };
    const unknown = Object.fromEntries(Array.from({ length: 25 }, (_, i) => [`field${i}`, 1]));
    const service = {
      apiVersion: "v1",
      kind: "Service",
      metadata: { name: "web" },
      spec: { ...spec, ...unknown },
    };
    const { stdout } = await nftProxy(["check", "--from", "-"], JSON.stringify(service));
    const lines = stdout.split("\n").filter((line) => line.includes("Service default/web"));
    expect(lines.filter((line) => line.includes("is not a field of the API"))).toHaveLength(20);
    expect(stdout).toContain("Service default/web: has 5 more errors");
    expect(stdout).toMatch(/Service default\/web: has 2\d more warnings/);
    expect(lines).toHaveLength(22);
  });

  test("ends with exit code 2 for bad arguments, and for a path that does not exist or cannot be read", async () => {
    expect((await check("--from", faulty, "--output=xml")).exitCode).toBe(2);
    expect((await check("--from", "/nowhere")).exitCode).toBe(2);
    expect((await check("--from", "/proc/self/mem")).exitCode).toBe(2);
  });
});
