import { readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Ajv } from "ajv";
import { execa } from "execa";
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { townFlags, townObjects } from "../support/command.ts";
import { nftProxy } from "../support/nft-proxy.ts";

const schema = JSON.parse(
  readFileSync(new URL("../../schemas/outcome-report.schema.json", import.meta.url), "utf8"),
);
const isReport = new Ajv({ strict: true }).compile(schema);
const recorded = new URL("../fixtures/kube-proxy/town.nft", import.meta.url).pathname;

const flush = () => execa("nft", ["flush", "ruleset"]);
const TOWN = ["--from", townObjects("town"), ...townFlags];

describe("diff --with kube-proxy", () => {
  beforeEach(async () => {
    await flush();
    await execa("nft", ["-f", recorded]);
  });
  afterEach(flush);

  const compare = (...args: string[]) => nftProxy(["diff", "--with", "kube-proxy", ...TOWN, ...args]);

  test("finds no difference on the recorded cluster, before a migration and on the way back", async () => {
    const before = await compare();
    expect(before).toEqual({
      exitCode: 0,
      stderr: "",
      stdout: expect.stringMatching(/^no difference: 142 frontends, /),
    });
    await nftProxy(["apply", ...TOWN]);
    expect(await compare("--live")).toMatchObject({ exitCode: 0, stdout: before.stdout });
  });

  test("names the frontend after a change of nft-proxy's own tables, on the way back", async () => {
    await nftProxy(["apply", ...TOWN]);
    await execa("nft", ["delete", "element", "ip", "nft-proxy", "lists", "{ 10.96.1.1 . tcp . 80 }"]);
    const { exitCode, stdout } = await compare("--live");
    expect(exitCode).toBe(1);
    expect(stdout).toMatch(
      /^shop\/frontend:http at 10\.96\.1\.1:80\/tcp, from pods .*\n.*served by .*\n.*\(kernel\): refused\n/,
    );
    expect((await compare()).exitCode, "the desired state is as it was").toBe(0);
  });

  test.each([
    [
      "a hairpin element",
      [
        "delete",
        "element",
        "ip",
        "kube-proxy",
        "hairpin-connections",
        "{ 10.244.1.16 . 10.244.1.16 . udp . 53 }",
      ],
      "dns/kube-dns:dns at 10.96.0.10:53/udp, from the endpoint itself (10.244.1.16)",
    ],
    [
      "a frontend",
      ["delete", "element", "ip", "kube-proxy", "service-ips", "{ 10.96.1.1 . tcp . 80 }"],
      "shop/frontend:http at 10.96.1.1:80/tcp, from pods (10.244.255.254)",
    ],
    [
      "the address of an endpoint",
      [
        "add",
        "element",
        "ip6",
        "kube-proxy",
        "no-endpoint-services",
        "{ fd00:244:1::14 . tcp . 6379 : drop }",
      ],
      "shop/redis at [fd00:10:96::103]:6379/tcp",
    ],
    [
      "the rules of a firewall chain",
      ["flush", "chain", "ip", "kube-proxy", "firewall-Z5EWGNDS-edge/fenced/tcp/http"],
      "edge/fenced:http at 203.0.113.22:80/tcp",
    ],
    [
      "a rule of an affinity chain",
      ["flush", "chain", "ip", "kube-proxy", "endpoint-CMZFK4QB-shop/cart/tcp/http__10.244.1.11/8080"],
      "shop/cart:http at 10.96.1.2:80/tcp",
    ],
    [
      "the masquerading of NodePorts",
      ["flush", "chain", "ip", "kube-proxy", "external-SFDBSQB2-shop/frontend/tcp/http"],
      "shop/frontend:http at NodePort 192.0.2.2:30080/tcp",
    ],
    [
      "the drop of unallocated addresses",
      ["flush", "chain", "ip6", "kube-proxy", "cluster-ips-check"],
      "fd00:10:96::ffff, which no Service has, from pods",
    ],
    [
      "the rules of one endpoint",
      [
        "insert",
        "rule",
        "ip",
        "kube-proxy",
        "endpoint-PSOW2GKD-shop/cart/tcp/http__10.244.3.11/8080",
        "drop",
      ],
      "shop/cart:http at 10.96.1.2:80/tcp",
    ],
    [
      "a frontend that nft-proxy does not have",
      [
        "add",
        "element",
        "ip",
        "kube-proxy",
        "service-ips",
        "{ 10.96.77.7 . tcp . 80 : goto service-242WI43H-shop/cart/tcp/http }",
      ],
      "shop/cart:http at 10.96.77.7:80/tcp",
    ],
    [
      "a NodePort that no Service has",
      ["add", "element", "ip", "kube-proxy", "no-endpoint-nodeports", "{ udp . 30999 : drop }"],
      "no Service at NodePort 192.0.2.2:30999/udp",
    ],
  ])("names the frontend after a change of %s", async (_, change, expected) => {
    await execa("nft", change);
    const { exitCode, stdout } = await compare();
    expect(exitCode).toBe(1);
    expect(stdout).toContain(expected);
  });

  test("takes kube-proxy's tables from a listing, and names a family that is missing", async () => {
    const directory = await mkdtemp(join(tmpdir(), "nft-proxy-diff-"));
    onTestFinished(() => rm(directory, { recursive: true }));
    const { stdout: listing } = await execa("nft", ["-j", "list", "table", "ip", "kube-proxy"]);
    await writeFile(`${directory}/listing.json`, listing);
    const other = listing.replace('"timeout": 600', '"timeout": 601');
    await writeFile(`${directory}/other.json`, other);
    await flush();
    const { exitCode, stdout, stderr } = await compare("--with-tables", `${directory}/listing.json`);
    expect({ exitCode, stderr }).toEqual({
      exitCode: 0,
      stderr: "note: there is no table ip6 kube-proxy: IPv6 is not compared",
    });
    expect(stdout).toMatch(/^no difference: 104 frontends/);
    const changed = await compare("--with-tables", `${directory}/other.json`);
    expect(changed.exitCode, "one endpoint keeps its clients for another time").toBe(1);
    expect(changed.stdout).toContain("affinity of ");
  });

  test("prints JSON that matches its schema", async () => {
    await execa("nft", ["flush", "map", "ip", "kube-proxy", "no-endpoint-services"]);
    const { exitCode, stdout } = await compare("--output=json");
    const report = JSON.parse(stdout);
    expect(exitCode).toBe(1);
    expect(isReport(report) || isReport.errors).toBe(true);
    expect(report).toMatchObject({ same: false, before: "kube-proxy", after: "nft-proxy (desired)" });
    expect(isReport({ ...report, same: "no" }), "the schema can refuse").toBe(false);
  });

  test("ends with exit code 2 without kube-proxy's tables", async () => {
    await flush();
    const { exitCode, stderr } = await compare();
    expect(exitCode).toBe(2);
    expect(stderr).toContain('there is no table "kube-proxy" here');
    expect(stderr).toContain("--with-tables");
  });

  test.each(["README.md", "package.json"])(
    "ends with exit code 2 and names %s, which is no listing",
    async (file) => {
      const { exitCode, stderr } = await compare("--with-tables", file);
      expect(exitCode).toBe(2);
      expect(stderr).toContain(`${file} is not a listing of nft as JSON`);
    },
  );
});

describe("diff --outcomes", () => {
  async function manifests(old: string, next: string): Promise<string[]> {
    const directory = await mkdtemp(join(tmpdir(), "nft-proxy-diff-"));
    onTestFinished(() => rm(directory, { recursive: true }));
    await writeFile(`${directory}/old.yaml`, old);
    await writeFile(`${directory}/new.yaml`, next);
    return [
      "diff",
      "--outcomes",
      "--from",
      `${directory}/old.yaml`,
      "--with-objects",
      `${directory}/new.yaml`,
      ...townFlags,
    ];
  }

  const service = (more: string) =>
    `{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}, spec: {clusterIP: 10.96.0.7, ${more}}}`;
  const slice = (addresses: readonly string[], node = "node-1") => `
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, addressType: IPv4, ports: [{name: http, port: 8080}],
 metadata: {name: web-1, namespace: shop, labels: {kubernetes.io/service-name: web}},
 endpoints: [${addresses.map((address) => `{addresses: [${address}], nodeName: ${node}}`).join(", ")}]}
---
{apiVersion: v1, kind: Node, metadata: {name: node-1}, status: {addresses: [{type: InternalIP, address: 192.0.2.2}]}}
`;
  const PORT = "ports: [{name: http, port: 80}]";
  const both = service(PORT) + slice(["10.244.1.11", "10.244.1.12"]);

  test("fails for a frontend that becomes refused", async () => {
    const args = await manifests(both, service(PORT) + slice([]));
    const { exitCode, stdout } = await nftProxy([...args, "--fail-on", "refused"]);
    expect(exitCode).toBe(1);
    expect(stdout).toContain("shop/web:http at 10.96.0.7:80/tcp, from pods (10.244.255.254)\n");
    expect(stdout).toContain("  + new objects: refused\n");
  });

  test("shows other endpoints, which are no failure where refusals are", async () => {
    const args = await manifests(both, service(PORT) + slice(["10.244.1.11", "10.244.1.13"]));
    const { exitCode, stdout } = await nftProxy([...args, "--fail-on", "refused,dropped"]);
    expect(exitCode).toBe(0);
    expect(stdout).toContain("+ new objects: served by 10.244.1.11:8080 (50 %), 10.244.1.13:8080 (50 %)");
    expect((await nftProxy([...args, "--fail-on", "endpoints"])).exitCode).toBe(1);
    expect((await nftProxy(args)).exitCode).toBe(1);
  });

  test("shows that Local policy keeps the source, and drops without a local endpoint", async () => {
    const nodePort = "type: NodePort, ports: [{name: http, port: 80, nodePort: 30080}]";
    const local = service(`${nodePort}, externalTrafficPolicy: Local`);
    const cluster = service(nodePort) + slice(["10.244.1.11"]);
    const kept = await nftProxy(await manifests(cluster, local + slice(["10.244.1.11"])));
    expect(kept.stdout).toContain("shop/web:http at NodePort 192.0.2.2:30080/tcp, from ");
    expect(kept.stdout).toContain("+ new objects: served by 10.244.1.11:8080 (100 %)");
    const args = await manifests(
      service(nodePort) + slice(["10.244.2.11"], "node-2"),
      local + slice(["10.244.2.11"], "node-2"),
    );
    expect((await nftProxy([...args, "--fail-on=dropped"])).exitCode).toBe(1);
  });

  test("prints annotations for GitHub with the Service's file and line", async () => {
    const args = await manifests(both, service(PORT) + slice([]));
    const { stdout } = await nftProxy([...args, "--output=github", "--fail-on=refused"]);
    expect(stdout).toMatch(
      /^::error file=\S+new\.yaml,line=1,title=shop\/web%3Ahttp at 10\.96\.0\.7%3A80\/tcp::from pods/,
    );
    expect(stdout).toContain("becomes refused");
  });

  test("finds no difference between the same objects", async () => {
    const { exitCode, stdout } = await nftProxy(await manifests(both, both));
    expect({ exitCode, stdout }).toEqual({ exitCode: 0, stdout: expect.stringMatching(/^no difference: /) });
  });

  test.each([
    ["no new objects", ["--outcomes"], "--with-objects PATH"],
    [
      "an unknown change",
      ["--outcomes", "--with-objects", "x", "--fail-on", "lost"],
      "must be one or more of refused",
    ],
    ["another proxy", ["--with", "envoy"], "must be kube-proxy"],
  ])("ends with exit code 2 for %s", async (_, args, message) => {
    const { exitCode, stderr } = await nftProxy(["diff", "--from", townObjects("town"), ...args]);
    expect(exitCode).toBe(2);
    expect(stderr).toContain(message);
  });
});
