import { readFileSync } from "node:fs";
import { Ajv } from "ajv";
import { describe, expect, test } from "vitest";

import { decodeService } from "../../../../src/kube/decode/service.ts";
import type { Service } from "../../../../src/model/service.ts";
import { countOperations } from "../../../support/operations.ts";

/** Two ports with one number. */
function twice(port: number): object[] {
  return ["b", "c"].map((name) => ({ name, port }));
}

interface Parts {
  readonly metadata?: object;
  readonly spec?: object;
  readonly status?: object;
}

function service({ metadata, spec, status }: Parts = {}): unknown {
  return {
    metadata: {
      name: "web",
      namespace: "town",
      uid: "u1",
      creationTimestamp: "2026-11-20T09:22:44Z",
      ...metadata,
    },
    spec: {
      clusterIP: "10.96.0.10",
      clusterIPs: ["10.96.0.10", "FD00:10:96::A"],
      ipFamilies: ["IPv4", "IPv6"],
      ports: [{ name: "http", protocol: "TCP", port: 80 }],
      ...spec,
    },
    status,
  };
}

function ours(parts: Parts) {
  const decoded = decodeService(service(parts));
  if (decoded.kind !== "valid") throw new Error(`is not ours: ${JSON.stringify(decoded)}`);
  return decoded;
}

function ingress(...ips: unknown[]): object {
  return { loadBalancer: { ingress: ips.map((ip) => (typeof ip === "string" ? { ip } : ip)) } };
}

test.each(["service", "endpointslice", "node", "servicecidr"])(
  "schemas/%s.schema.json is a valid JSON schema",
  (name) => {
    const text = readFileSync(new URL(`../../../../schemas/${name}.schema.json`, import.meta.url), "utf8");
    expect(new Ajv({ allowUnionTypes: true }).validateSchema(JSON.parse(text))).toBe(true);
  },
);

test.each(["random", "round-robin", "source-hash", "flow-hash"])(
  "a Service's annotation for the scheduler %s is read",
  (scheduler) => {
    const metadata = { annotations: { "nft-proxy.io/scheduler": scheduler } };
    expect(ours({ metadata })).toMatchObject({
      diagnostics: [],
      value: { features: { schedulers: { scheduler } } },
    });
  },
);

test.each(["", "Random", "rr", "least-connection"])(
  "a Service's annotation for the scheduler %j is ignored, with a warning",
  (text) => {
    expect(ours({ metadata: { annotations: { "nft-proxy.io/scheduler": text } } })).toMatchObject({
      diagnostics: [{ path: 'metadata.annotations["nft-proxy.io/scheduler"]', severity: "warning" }],
      value: {
        ignoredAnnotations: [
          {
            annotation: "nft-proxy.io/scheduler",
            reason: `must be random, round-robin, source-hash or flow-hash, not ${JSON.stringify(text)}`,
            consequence: "it is ignored",
          },
        ],
      },
    });
  },
);

test("of an annotation of 256 KB for the scheduler the first 80 characters are kept", () => {
  const metadata = { annotations: { "nft-proxy.io/scheduler": "fast".repeat(65_536) } };
  const decoded = ours({ metadata });
  expect(decoded).toMatchObject({
    value: {
      ignoredAnnotations: [{ reason: expect.stringMatching(/, not "(fast){20}"\.\.\.$/) }],
    },
  });
  expect(JSON.stringify(decoded).length).toBeLessThan(2000);
});

test("of thousands of addresses that have no effect 20 are named, errors first, and the others counted", () => {
  const externalIPs = [...Array.from({ length: 1500 }, (_, i) => `fd00::${i.toString(16)}`), "127.0.0.1"];
  const decoded = ours({ spec: { clusterIP: "10.96.0.9", clusterIPs: null, ipFamilies: null, externalIPs } });
  const diagnostics = decoded.kind === "valid" ? decoded.diagnostics : [];
  expect(diagnostics).toHaveLength(21);
  expect(diagnostics[0]).toMatchObject({ path: "spec.externalIPs[1500]", severity: "error" });
  expect(diagnostics[20]).toMatchObject({ path: "", reason: "has 1481 more warnings", severity: "warning" });
});

describe("a Service beyond its budget", () => {
  const spec = { type: "LoadBalancer", clusterIP: "10.96.0.9", clusterIPs: null, ipFamilies: null };
  const status = { loadBalancer: { ingress: [{ ip: "203.0.113.1" }] } };
  const decoded = (more: object) => decodeService(service({ spec: { ...spec, ...more }, status }));
  const copies = (count: number, text: string) => Array.from({ length: count }, () => text);
  const NONE = { ip: [], ip6: [] };

  test.each([
    [
      "of source ranges",
      { loadBalancerSourceRanges: [...copies(20_000, "10.0.0.0/8"), "no range"] },
      { of: "sourceRanges", count: 20_001, budget: 20_000 },
    ],
    [
      "of addresses",
      { externalIPs: copies(2000, "203.0.113.2") },
      { of: "addresses", count: 2001, budget: 2000 },
    ],
  ])("%s is decoded without both, so that nothing is open to all", (_, more, excess) => {
    const value = { excess, externalIPs: NONE, loadBalancerIPs: NONE, loadBalancerSourceRanges: NONE };
    expect(decoded(more)).toMatchObject({ kind: "valid", value, diagnostics: [] });
  });

  test("is not one that is exactly at its limits", () => {
    const externalIPs = Array.from({ length: 1999 }, (_, i) => `198.18.${i >> 8}.${i & 255}`);
    const { value } = decoded({ externalIPs, loadBalancerSourceRanges: copies(20_000, "10.0.0.0/8") }) as {
      value: Service;
    };
    expect(value.excess).toBeUndefined();
    expect(value.externalIPs.ip).toHaveLength(1999);
  });

  test("is decoded without reading each of its source ranges", () => {
    const many = (count: number) => ({ loadBalancerSourceRanges: copies(count, "10.0.0.0/8") });
    const [few, all] = [many(20_001), many(80_000)];
    expect(countOperations(() => decoded(all))).toBe(countOperations(() => decoded(few)));
  });
});

test("a Service is decoded with its defaults", () => {
  expect(decodeService(service())).toEqual({
    kind: "valid",
    diagnostics: [],
    value: {
      name: "town/web",
      uid: "u1",
      createdAt: Date.UTC(2026, 10, 20, 9, 22, 44),
      clusterIPs: { ip: "10.96.0.10", ip6: "fd00:10:96::a" },
      ports: [{ name: "http", protocol: "tcp", port: 80, nodePort: 0 }],
      externalIPs: { ip: [], ip6: [] },
      loadBalancerIPs: { ip: [], ip6: [] },
      loadBalancerSourceRanges: { ip: [], ip6: [] },
      affinitySeconds: 0,
      internalPolicyLocal: false,
      externalPolicyLocal: false,
      healthCheckNodePort: 0,
      deleting: false,
    },
  });
});

test("a Service's null is an absent value, and no namespace is the namespace default", () => {
  const metadata = { namespace: null, uid: null, creationTimestamp: null, labels: null };
  const spec = { externalIPs: null, loadBalancerSourceRanges: null, sessionAffinityConfig: null, type: null };
  const { value, diagnostics } = ours({ metadata, spec });
  expect([value.name, value.uid, value.createdAt, diagnostics]).toEqual(["default/web", "", 0, []]);
});

test("a Service without clusterIPs has its clusterIP", () => {
  const spec = { clusterIP: "fd00::1", clusterIPs: null, ipFamilies: null };
  expect(ours({ spec }).value.clusterIPs).toEqual({ ip: "", ip6: "fd00::1" });
});

test("a Service with a cluster IP and the label headless is served", () => {
  expect(
    decodeService(service({ metadata: { labels: { "service.kubernetes.io/headless": "" } } })).kind,
  ).toBe("valid");
});

describe("a Service is ignored if it", () => {
  test.each<[string, Parts]>([
    [
      "is of type ExternalName",
      { spec: { type: "ExternalName", clusterIP: "", clusterIPs: [], ports: null } },
    ],
    ["is headless", { spec: { clusterIP: "None", clusterIPs: ["None"] } }],
    ["is headless", { spec: { clusterIP: null, clusterIPs: ["None"] } }],
    ["has no cluster IP (the API server assigns it)", { spec: { clusterIP: "", clusterIPs: [] } }],
    [
      "is handled by another proxy: it has the label service.kubernetes.io/service-proxy-name",
      { metadata: { labels: { "service.kubernetes.io/service-proxy-name": "" } } },
    ],
  ])("%s", (reason, parts) => {
    expect(decodeService(service(parts))).toEqual({ kind: "ignored", reason });
  });
});

describe("a Service is refused:", () => {
  test.each<[string, string, unknown]>([
    ["", "must be an object, not null", null],
    ["", "must be an object, not an array", []],
    ["", "must have required property 'spec'", { metadata: { name: "x" } }],
    ["metadata.name", "must be a DNS label", service({ metadata: { name: "web; flush ruleset" } })],
    ["metadata.namespace", "must be a DNS label", service({ metadata: { namespace: "../x" } })],
    [
      "metadata.creationTimestamp",
      "must be a time",
      service({ metadata: { creationTimestamp: "yesterday" } }),
    ],
    [
      "spec.type",
      'must be ClusterIP, NodePort, LoadBalancer or ExternalName, not "Magic"',
      service({ spec: { type: "Magic" } }),
    ],
    ["spec.ports", "must be an array, not an object", service({ spec: { ports: {} } })],
    ["spec.ports", "must have a port", service({ spec: { ports: [] } })],
    ["spec.ports[0]", "must have required property 'port'", service({ spec: { ports: [{}] } })],
    ["spec.ports[0].port", "must be >= 1, not 0", service({ spec: { ports: [{ port: 0 }] } })],
    ["spec.ports[0].port", "must be <= 65535, not 65536", service({ spec: { ports: [{ port: 65536 }] } })],
    ["spec.ports[0].port", 'must be an integer, not "80"', service({ spec: { ports: [{ port: "80" }] } })],
    ["spec.ports[0].port", "must be an integer, not 80.5", service({ spec: { ports: [{ port: 80.5 }] } })],
    ["spec.ports[0].name", "must be a DNS label", service({ spec: { ports: [{ port: 80, name: "a b" }] } })],
    [
      "spec.ports[0].nodePort",
      "must be <= 65535",
      service({ spec: { ports: [{ port: 80, nodePort: 1e9 }] } }),
    ],
    [
      "spec.ports[0].protocol",
      'must be TCP, UDP or SCTP, not "ICMP"',
      service({ spec: { ports: [{ port: 80, protocol: "ICMP" }] } }),
    ],
    ["spec.externalIPs[0]", "must be a string, not 5", service({ spec: { externalIPs: [5] } })],
    ["metadata.annotations", 'must be an object, not "x"', service({ metadata: { annotations: "x" } })],
    [
      'metadata.annotations["nft-proxy.io/scheduler"]',
      "must be a string, not 5",
      service({ metadata: { annotations: { "nft-proxy.io/scheduler": 5 } } }),
    ],
    [
      "spec.sessionAffinity",
      'must be None or ClientIP, not "Cookie"',
      service({ spec: { sessionAffinity: "Cookie" } }),
    ],
    [
      "spec.sessionAffinityConfig.clientIP.timeoutSeconds",
      "must be <= 86400",
      service({ spec: { sessionAffinityConfig: { clientIP: { timeoutSeconds: 86401 } } } }),
    ],
    ["spec.clusterIPs[0]", "must be an IP address", service({ spec: { clusterIPs: ["010.96.0.1"] } })],
    ["spec.clusterIPs[0]", "cannot be served at 127.0.0.1", service({ spec: { clusterIPs: ["127.0.0.1"] } })],
    [
      "spec.clusterIPs[0]",
      "must be IPv6, not 10.96.0.10",
      service({ spec: { ipFamilies: ["IPv6", "IPv4"] } }),
    ],
    [
      "spec.clusterIPs[1]",
      "is a second IPv4 address",
      service({ spec: { clusterIPs: ["10.96.0.10", "10.96.0.11"], ipFamilies: null } }),
    ],
    [
      "spec.clusterIP",
      "must be the first of spec.clusterIPs",
      service({ spec: { clusterIP: "10.96.0.11" } }),
    ],
    [
      "spec.clusterIP",
      "must be an IP address",
      service({ spec: { clusterIP: "10.0.0.1; flush ruleset", clusterIPs: null } }),
    ],
  ])("%s %s", (path, reason, object) => {
    const decoded = decodeService(object);
    expect(decoded.kind).toBe("invalid");
    const diagnostics = decoded.kind === "invalid" ? decoded.diagnostics : [];
    expect(diagnostics[0]).toMatchObject({
      path,
      severity: "error",
      reason: expect.stringContaining(reason),
    });
  });

  test.each([
    ["an invalid port number", { ports: [{ port: "80", name: "a" }, ...twice(81)] }],
    ["a port without a number", { ports: [{ name: "a" }, ...twice(81)] }],
    [
      "an invalid cluster IP",
      { clusterIP: 7, clusterIPs: null, ports: [{ port: 80, name: "a" }, ...twice(81)] },
    ],
    ["invalid cluster IPs", { clusterIPs: [7], ports: [{ port: 80, name: "a" }, ...twice(81)] }],
  ])("with %s and everything else that is wrong, but nothing that follows from it", (_what, spec) => {
    const annotations = { "nft-proxy.io/scheduler": "rand", "nft-proxy.io/port-ranges": "c=1-5" };
    const given = { metadata: { annotations }, spec: { ...spec, externalIPs: ["127.0.0.1"] } };
    const decoded = decodeService(service(given));
    expect(
      decoded.kind === "invalid" && decoded.diagnostics.slice(1).map(({ code, path }) => [code, path]),
    ).toEqual([
      ["duplicate-port", "spec.ports[2].port"],
      ["reserved-address", "spec.externalIPs[0]"],
      ["invalid-annotation", 'metadata.annotations["nft-proxy.io/scheduler"]'],
    ]);
  });

  test.each([
    ["a port without a number", [{ name: "a" }]],
    ["an invalid node port", [{ name: "a", port: 81, nodePort: "x" }]],
  ])("with %s and a range that names no port, not even that one", (_what, invalidPorts) => {
    const rangeReasons = (ranges: string) => {
      const annotations = { "nft-proxy.io/port-ranges": ranges };
      const ports = [...invalidPorts, { name: "web", port: 80 }];
      const decoded = decodeService(service({ metadata: { annotations }, spec: { ports } }));
      const diagnostics = decoded.kind === "invalid" ? decoded.diagnostics.slice(1) : [];
      return diagnostics.map(({ reason }) => reason);
    };
    expect(rangeReasons("a=1-5,web=100-199")).toEqual([]);
    expect(rangeReasons("video=1-5")).toEqual([
      expect.stringContaining('names the port "video", which the Service does not have: its ports are'),
    ]);
  });

  test("with at most 20 errors, and the number of the others", () => {
    const decoded = decodeService(service({ spec: { externalIPs: new Array(100).fill(1) } }));
    const diagnostics = decoded.kind === "invalid" ? decoded.diagnostics : [];
    expect(diagnostics).toHaveLength(21);
    expect(diagnostics.at(-1)?.reason).toBe("has 80 more errors");
  });
});

describe("the ports of a Service", () => {
  test("keep protocols and node ports", () => {
    const ports = [
      { name: "a", port: 53, protocol: "UDP", nodePort: 30053 },
      { name: "b", port: 53, protocol: "TCP", nodePort: 30053 },
      { name: "c", port: 9, protocol: "SCTP", nodePort: null },
    ];
    expect(ours({ spec: { ports } }).value.ports).toEqual([
      { name: "a", port: 53, protocol: "udp", nodePort: 30053 },
      { name: "b", port: 53, protocol: "tcp", nodePort: 30053 },
      { name: "c", port: 9, protocol: "sctp", nodePort: 0 },
    ]);
  });

  test("exclude a port that repeats another's name, number or node port", () => {
    const ports = [
      { name: "a", port: 80, nodePort: 30080 },
      { name: "a", port: 81 },
      { name: "b", port: 80 },
      { name: "c", port: 82, nodePort: 30080 },
    ];
    const { value, diagnostics } = ours({ spec: { ports } });
    expect(value.ports.map(({ name, port, nodePort }) => [name, port, nodePort])).toEqual([
      ["a", 80, 30080],
      ["c", 82, 0],
    ]);
    expect(diagnostics.map(({ path }) => path)).toEqual([
      "spec.ports[1].name",
      "spec.ports[2].port",
      "spec.ports[3].nodePort",
    ]);
  });
});

describe("the policies of a Service", () => {
  test.each([
    ["LoadBalancer", [], true, 32000],
    ["NodePort", [], true, 0],
    ["ClusterIP", ["192.0.2.1"], true, 0],
    ["ClusterIP", [], false, 0],
  ])(
    "of type %s with external IPs %j and policy Local make external Local %s",
    (type, externalIPs, isLocal, healthCheckNodePort) => {
      const spec = { type, externalIPs, externalTrafficPolicy: "Local", healthCheckNodePort: 32000 };
      expect(ours({ spec }).value).toMatchObject({ externalPolicyLocal: isLocal, healthCheckNodePort });
    },
  );

  test("with policy Cluster make a health check node port 0", () => {
    const spec = { type: "LoadBalancer", externalTrafficPolicy: "Cluster", healthCheckNodePort: 32000 };
    expect(ours({ spec }).value).toMatchObject({ externalPolicyLocal: false, healthCheckNodePort: 0 });
  });

  test("with internalTrafficPolicy Local make internal Local true", () => {
    expect(ours({ spec: { internalTrafficPolicy: "Local" } }).value.internalPolicyLocal).toBe(true);
  });

  test.each([
    [{ sessionAffinity: "ClientIP" }, 10800],
    [{ sessionAffinity: "ClientIP", sessionAffinityConfig: { clientIP: { timeoutSeconds: 1 } } }, 1],
    [{ sessionAffinity: "None", sessionAffinityConfig: { clientIP: { timeoutSeconds: 1 } } }, 0],
  ])("of %j make %i seconds of affinity", (spec, seconds) => {
    expect(ours({ spec }).value.affinitySeconds).toBe(seconds);
  });

  test("with a deletionTimestamp mark it as deleting", () => {
    expect(ours({ metadata: { deletionTimestamp: "2026-11-20T09:22:44Z" } }).value.deleting).toBe(true);
  });
});

describe("the addresses of a Service", () => {
  test("exclude and report external IPs that are none", () => {
    const externalIPs = [
      "192.0.2.1",
      "010.1.1.1",
      "fe80::1",
      "2001:DB8::1",
      "0.0.0.0",
      "192.0.2.1",
      "224.0.0.1",
    ];
    const { value, diagnostics } = ours({ spec: { externalIPs } });
    expect(value.externalIPs).toEqual({ ip: ["192.0.2.1"], ip6: ["2001:db8::1"] });
    expect(diagnostics.map(({ path, severity }) => `${severity} ${path}`)).toEqual([
      "error spec.externalIPs[1]",
      "error spec.externalIPs[2]",
      "error spec.externalIPs[4]",
      "error spec.externalIPs[6]",
    ]);
  });

  test("exclude and warn of an address of a family that the Service does not have", () => {
    const spec = { clusterIPs: ["10.96.0.10"], ipFamilies: ["IPv4"], externalIPs: ["2001:db8::1"] };
    const { value, diagnostics } = ours({ spec });
    expect(value.externalIPs).toEqual({ ip: [], ip6: [] });
    expect(diagnostics).toMatchObject([{ path: "spec.externalIPs[0]", severity: "warning" }]);
  });

  test("keep only load balancer IPs with ipMode VIP", () => {
    const status = ingress(
      "192.0.2.1",
      { ip: "192.0.2.2", ipMode: "VIP" },
      { ip: "192.0.2.3", ipMode: "Proxy" },
      { ip: "192.0.2.4", ipMode: null },
      { hostname: "lb.example" },
      "fe80::1%eth0",
      "127.0.0.1",
    );
    const { value, diagnostics } = ours({ status });
    expect(value.loadBalancerIPs).toEqual({ ip: ["192.0.2.1", "192.0.2.2", "192.0.2.4"], ip6: [] });
    expect(diagnostics.map(({ path }) => path)).toEqual([
      "status.loadBalancer.ingress[5].ip",
      "status.loadBalancer.ingress[6].ip",
    ]);
  });
});

describe("source ranges with faults never open the firewall wider:", () => {
  const status = ingress("192.0.2.1", "2001:db8::1");

  test.each<[string[], string[], string[], string[], number]>([
    // ranges, IPv4 ranges kept, IPv6 ranges kept, load-balancer IPs served, diagnostics
    [[], [], [], ["192.0.2.1", "2001:db8::1"], 0],
    [[" 10.1.2.3/8\n", "FD00::1/8"], ["10.0.0.0/8"], ["fd00::/8"], ["192.0.2.1", "2001:db8::1"], 0],
    // As kube-proxy: ranges of one family say nothing of the other.
    [["10.0.0.0/8"], ["10.0.0.0/8"], [], ["192.0.2.1", "2001:db8::1"], 0],
    [["10.0.0.0/8", "10.0.0.0/33"], ["10.0.0.0/8"], [], ["192.0.2.1", "2001:db8::1"], 1],
    [["10.0.0.0/8", "fd00::/129"], ["10.0.0.0/8"], [], ["192.0.2.1"], 2],
    [["10.0.0.0/33", "fd00::/8"], [], ["fd00::/8"], ["2001:db8::1"], 2],
    [["10.0.0.0/8", "everyone"], ["10.0.0.0/8"], [], ["192.0.2.1"], 2],
    [["10.0.0.0/33"], [], [], [], 3],
    [["everyone"], [], [], [], 3],
    [[""], [], [], [], 3],
    [["10.0.0.0/8; flush ruleset"], [], [], [], 3],
  ])("%j keeps %j and %j, and serves %j", (loadBalancerSourceRanges, ip, ip6, served, faultCount) => {
    const { value, diagnostics } = ours({ spec: { type: "LoadBalancer", loadBalancerSourceRanges }, status });
    expect(value.loadBalancerSourceRanges).toEqual({ ip, ip6 });
    expect([...value.loadBalancerIPs.ip, ...value.loadBalancerIPs.ip6]).toEqual(served);
    expect(diagnostics).toHaveLength(faultCount);
    expect(diagnostics.every(({ path }) => path.startsWith("spec.loadBalancerSourceRanges"))).toBe(true);
  });
});
