import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { FAMILIES } from "../../src/base/family.ts";
import { resolveOptions } from "../../src/config/resolve.ts";
import { apiServerErrors } from "../../src/inspect/check/api-server-errors.ts";
import { checkWarnings } from "../../src/inspect/check/warnings.ts";
import { loadFromFiles } from "../../src/inspect/load/desired.ts";
import type { Decoded } from "../../src/kube/decode/decode.ts";
import { decodeEndpointSlice } from "../../src/kube/decode/endpoint-slice.ts";
import { decodeNode, decodeServiceCIDR } from "../../src/kube/decode/node.ts";
import { decodeService } from "../../src/kube/decode/service.ts";
import type { EndpointSlice } from "../../src/model/endpoint-slice.ts";
import { canonicalAddress, canonicalCidr } from "../../src/model/ip.ts";
import type { Node, ServiceCIDR } from "../../src/model/node.ts";
import type { Service } from "../../src/model/service.ts";

/** Thousands of objects; milliseconds, for a busy machine. */
const SLOW = 60_000;

const HOSTILE = [
  // Sound, but not in the form nft prints.
  "FD00:0::A",
  "10.0.0.1; flush ruleset",
  "10.0.0.1\n",
  "010.1.1.1",
  "fe80::1%eth0",
  "::ffff:10.0.0.1",
  "localhost",
  "@cluster-ips",
  "../../etc/passwd",
  'x" } drop {',
  "a b",
  "é",
  "\u0000",
  "x".repeat(100_000),
];

/** What a value is damaged into; undefined takes it away. */
const DAMAGES: readonly unknown[] = [
  undefined,
  null,
  true,
  0,
  -1,
  1.5,
  1e9,
  Number.NaN,
  "",
  [],
  {},
  [[]],
  [null],
  ["x"],
  { x: 1 },
  JSON.parse('{"__proto__": {"name": "x"}}'),
  ...HOSTILE,
  ...HOSTILE.map((text) => [text]),
];

type Path = readonly string[];

/** The paths of everything in an object but what no proxy reads. */
function pathsIn(value: unknown, path: Path = []): Path[] {
  if (typeof value !== "object" || value === null || path.at(-1) === "managedFields") return [path];
  return [path, ...Object.entries(value).flatMap(([key, child]) => pathsIn(child, [...path, key]))];
}

function damaged(object: unknown, path: Path, damage: unknown): unknown {
  const [key, ...rest] = path;
  if (key === undefined) return damage;
  const copy: Record<string, unknown> = Array.isArray(object)
    ? ([...object] as never)
    : { ...(object as object) };
  copy[key] = damaged(copy[key], rest, damage);
  return copy;
}

const LABEL = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;
const SUBDOMAIN = /^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/;

function expectAddresses(byFamily: Readonly<Record<"ip" | "ip6", string | readonly string[]>>): void {
  for (const family of FAMILIES) {
    for (const address of [byFamily[family]].flat().filter((each) => each !== "")) {
      expect(canonicalAddress(address, family)).toBe(address);
    }
  }
}

function expectCidrs(byFamily: Readonly<Record<"ip" | "ip6", readonly string[]>>): void {
  for (const family of FAMILIES)
    for (const cidr of byFamily[family]) expect(canonicalCidr(cidr, family)).toBe(cidr);
}

function expectPort(port: number, least: number): void {
  expect(Number.isInteger(port) && port >= least && port <= 65535).toBe(true);
}

function expectService(service: Service): void {
  expect(service.name.split("/").every((part) => LABEL.test(part))).toBe(true);
  expectAddresses(service.clusterIPs);
  expectAddresses(service.externalIPs);
  expectAddresses(service.loadBalancerIPs);
  expectCidrs(service.loadBalancerSourceRanges);
  expect(service.clusterIPs.ip + service.clusterIPs.ip6).not.toBe("");
  expect(service.ports.length).toBeGreaterThan(0);
  for (const { name, protocol, port, nodePort } of service.ports) {
    expect(name === "" || LABEL.test(name)).toBe(true);
    expect(["tcp", "udp", "sctp"]).toContain(protocol);
    expectPort(port, 1);
    expectPort(nodePort, 0);
  }
  expectPort(service.healthCheckNodePort, 0);
  expect(service.affinitySeconds >= 0 && service.affinitySeconds <= 86400).toBe(true);
  expect(
    [service.internalPolicyLocal, service.externalPolicyLocal, service.deleting].map((each) => typeof each),
  ).toEqual(new Array(3).fill("boolean"));
  expect(Number.isFinite(service.createdAt)).toBe(true);
}

function expectSlice(slice: EndpointSlice): void {
  expect(slice.service.split("/").every((part) => LABEL.test(part))).toBe(true);
  expect([LABEL.test(slice.namespace), SUBDOMAIN.test(slice.name)]).toEqual([true, true]);
  for (const { name, protocol, port } of slice.ports) {
    expect(name === "" || LABEL.test(name)).toBe(true);
    expect(["tcp", "udp", "sctp"]).toContain(protocol);
    expectPort(port, 1);
  }
  for (const {
    address,
    ready,
    serving,
    terminating,
    nodeName,
    zone,
    zoneHints,
    nodeHints,
    pod,
  } of slice.endpoints) {
    expect(canonicalAddress(address, slice.family)).toBe(address);
    expect([ready, serving, terminating].map((each) => typeof each)).toEqual(new Array(3).fill("boolean"));
    for (const name of [nodeName, ...nodeHints]) expect(name === "" || SUBDOMAIN.test(name)).toBe(true);
    for (const text of [zone, ...zoneHints, pod]) expect(text).toMatch(/^[!-~]{0,510}$/);
  }
  expect(Number.isFinite(slice.lastChangeTriggerTime)).toBe(true);
}

function expectNode(node: Node): void {
  expect(SUBDOMAIN.test(node.name)).toBe(true);
  expect(node.zone).toMatch(/^[!-~]{0,253}$/);
  expectAddresses(node.addresses);
  expectCidrs(node.podCIDRs);
}

function expectServiceCIDR(serviceCIDR: ServiceCIDR): void {
  expect(SUBDOMAIN.test(serviceCIDR.name)).toBe(true);
  expectCidrs(serviceCIDR.cidrs);
}

function check<T>(decoded: Decoded<T>, expectSound: (value: T) => void): void {
  if (decoded.kind === "valid") expectSound(decoded.value);
  if (decoded.kind === "invalid") expect(decoded.diagnostics.length).toBeGreaterThan(0);
  for (const { path, reason } of decoded.kind === "ignored" ? [] : decoded.diagnostics) {
    expect(reason).toMatch(/^\S.{5,400}$/);
    expect(path).toMatch(/^[!-~]{0,200}$/);
  }
}

function items(list: string, names: readonly string[]): unknown[] {
  const text = readFileSync(new URL(`../fixtures/town/objects/${list}.json`, import.meta.url), "utf8");
  const all = (JSON.parse(text) as { items: { metadata: { name: string } }[] }).items;
  return all.filter(
    ({ metadata }) => names.length === 0 || names.some((name) => metadata.name.startsWith(name)),
  );
}

function damageAll<T>(
  objects: readonly unknown[],
  decode: (object: unknown) => Decoded<T>,
  expectSound: (value: T) => void,
) {
  let refused = 0;
  for (const object of objects) {
    for (const path of pathsIn(object)) {
      for (const damage of DAMAGES) {
        const decoded = decode(damaged(object, path, damage));
        check(decoded, expectSound);
        if (decoded.kind === "invalid") refused += 1;
      }
    }
  }
  return refused;
}

describe("a damaged object is refused with a reason, or decoded into valid fields,", () => {
  test(
    "when it is a Service",
    () => {
      expect(
        damageAll(items("services", ["fenced", "kube-dns", "sticky"]), decodeService, expectService),
      ).toBeGreaterThan(100);
    },
    SLOW,
  );

  test(
    "when it is an EndpointSlice",
    () => {
      const slices = items("endpointslices", ["zone-", "kube-dns"]).slice(0, 3);
      expect(damageAll(slices, decodeEndpointSlice, expectSlice)).toBeGreaterThan(100);
    },
    SLOW,
  );

  test(
    "when it is a Node",
    () => {
      expect(damageAll(items("nodes", []).slice(0, 1), decodeNode, expectNode)).toBeGreaterThan(50);
    },
    SLOW,
  );

  test(
    "when it is a ServiceCIDR",
    () => {
      expect(damageAll(items("servicecidrs", []), decodeServiceCIDR, expectServiceCIDR)).toBeGreaterThan(50);
    },
    SLOW,
  );
});

const directory = mkdtempSync(join(tmpdir(), "damaged-objects-"));
afterAll(() => rmSync(directory, { recursive: true }));

/** Returns the paths of the diagnostics of a file with one object. */
async function checkedPaths(object: unknown): Promise<string[]> {
  const path = join(directory, "object.json");
  writeFileSync(path, JSON.stringify(object) ?? "");
  const { options } = resolveOptions();
  const request = {
    options,
    nodeName: "node",
    paths: [path],
    stdin: process.stdin,
    env: {},
    userAgent: "test",
  };
  const desired = await loadFromFiles(request, { thorough: true, placeholders: true });
  const found = [...desired.diagnostics, ...apiServerErrors(desired.files), ...checkWarnings(desired)];
  return found.map((one) => one.path);
}

describe("check reads a damaged object", () => {
  test.each([
    ["Service", "v1", items("services", ["fenced"])],
    ["EndpointSlice", "discovery.k8s.io/v1", items("endpointslices", ["zone-"])],
    ["Node", "v1", items("nodes", [])],
    ["ServiceCIDR", "networking.k8s.io/v1", items("servicecidrs", [])],
  ])(
    "of kind %s without an internal error",
    async (kind, apiVersion, [found]) => {
      const object = { apiVersion, kind, ...(found as object) };
      expect(await checkedPaths(object)).not.toContain("metadata.labels");
      expect(await checkedPaths(damaged(object, ["metadata", "labels"], 5))).toContain("metadata.labels");
      for (const path of pathsIn(object)) {
        for (const damage of [undefined, null, 5, [null]]) await checkedPaths(damaged(object, path, damage));
      }
    },
    SLOW,
  );
});
