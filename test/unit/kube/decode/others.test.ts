import { describe, expect, test } from "vitest";
import { decodeEndpointSlice } from "../../../../src/kube/decode/endpoint-slice.ts";
import { decodeNode, decodeServiceCIDR } from "../../../../src/kube/decode/node.ts";
import { SliceEndpoints } from "../../../../src/model/endpoint-slice.ts";

function slice(parts: object = {}, metadata: object = {}): unknown {
  const labels = { "kubernetes.io/service-name": "web" };
  return {
    metadata: { name: "web-abcde", namespace: "town", uid: "u1", labels, ...metadata },
    addressType: "IPv4",
    endpoints: [{ addresses: ["10.244.1.1"] }],
    ports: [{ name: "http", protocol: "TCP", port: 8080 }],
    ...parts,
  };
}

function oursSlice(parts: object, metadata: object = {}) {
  const decoded = decodeEndpointSlice(slice(parts, metadata));
  if (decoded.kind !== "valid") throw new Error(`is not ours: ${JSON.stringify(decoded)}`);
  return decoded;
}

describe("the weight of an EndpointSlice", () => {
  const weighted = (text: string) => oursSlice({}, { annotations: { "nft-proxy.io/weight": text } });

  test.each(["0", "1", "100"])("is read from the annotation (%s)", (text) => {
    expect(weighted(text)).toMatchObject({
      diagnostics: [],
      value: { features: { schedulers: { weight: Number(text) } } },
    });
  });

  test.each(["", "101", "-1", "1.5", "0x1", "heavy", "1000"])(
    "is ignored with a warning where the annotation is %j",
    (text) => {
      expect(weighted(text)).toMatchObject({
        diagnostics: [{ path: 'metadata.annotations["nft-proxy.io/weight"]', severity: "warning" }],
      });
      expect(weighted(text)).not.toHaveProperty("value.features");
    },
  );
});

describe("an EndpointSlice", () => {
  test("is decoded with defaults", () => {
    expect(decodeEndpointSlice(slice())).toEqual({
      kind: "valid",
      diagnostics: [],
      value: {
        namespace: "town",
        name: "web-abcde",
        uid: "u1",
        service: "town/web",
        family: "ip",
        ports: [{ name: "http", protocol: "tcp", port: 8080 }],
        endpoints: new SliceEndpoints([
          {
            address: "10.244.1.1",
            nodeName: "",
            zone: "",
            ready: true,
            serving: true,
            terminating: false,
            zoneHints: [],
            nodeHints: [],
            pod: "",
          },
        ]),
        lastChangeTriggerTime: 0,
      },
    });
  });

  test("keeps every field that we read", () => {
    const endpoint = {
      addresses: ["FD00::1", "fd00::2"],
      conditions: { ready: false, serving: false, terminating: true },
      nodeName: "node-1.example",
      zone: "zone-a",
      hints: { forZones: [{ name: "zone-a" }, { name: "zone-b" }], forNodes: [{ name: "node-1" }] },
      targetRef: { kind: "Pod", namespace: "town", name: "web-1" },
    };
    const annotations = { "endpoints.kubernetes.io/last-change-trigger-time": "1970-01-01T00:00:01Z" };
    const labels = { "kubernetes.io/service-name": "web" };
    const { value, diagnostics } = oursSlice(
      { addressType: "IPv6", endpoints: [endpoint] },
      { annotations, labels },
    );
    expect(diagnostics).toEqual([]);
    expect(value.lastChangeTriggerTime).toBe(1000);
    expect([...value.endpoints]).toEqual([
      {
        address: "fd00::1",
        nodeName: "node-1.example",
        zone: "zone-a",
        ready: false,
        serving: false,
        terminating: true,
        zoneHints: ["zone-a", "zone-b"],
        nodeHints: ["node-1"],
        pod: "town/web-1",
      },
    ]);
  });

  test("takes null for an absent value, also for an empty list", () => {
    const { value } = oursSlice({ endpoints: null, ports: null });
    expect([[...value.endpoints], value.ports]).toEqual([[], []]);
    const nulls = {
      addresses: ["10.0.0.1"],
      conditions: { ready: null, serving: null },
      hints: null,
      targetRef: null,
    };
    expect([...oursSlice({ endpoints: [nulls] }).value.endpoints]).toMatchObject([
      { ready: true, serving: true },
    ]);
  });

  test("ignores the name of a pod that kubectl would read as an option", () => {
    const targetRef = { kind: "Pod", namespace: "town", name: "--all" };
    expect([
      ...oursSlice({ endpoints: [{ addresses: ["10.0.0.1"], targetRef }] }).value.endpoints,
    ]).toMatchObject([{ pod: "" }]);
  });

  test("excludes a port without a number, and gives one without a name the empty name", () => {
    const ports = [
      { name: "a" },
      { name: "b", port: 0 },
      { port: 53, protocol: "UDP" },
      { name: null, port: 54 },
    ];
    expect(oursSlice({ ports }).value.ports).toEqual([
      { name: "", protocol: "udp", port: 53 },
      { name: "", protocol: "tcp", port: 54 },
    ]);
  });

  test("excludes and reports endpoints without a usable address", () => {
    const texts = [
      "10.0.0.1",
      "010.1.1.1",
      "fd00::1",
      "127.0.0.1",
      "169.254.0.1",
      "224.0.0.1",
      "0.0.0.0",
      "10.0.0.2",
    ];
    const endpoints = [...texts.map((text) => ({ addresses: [text] })), { addresses: [] }, {}];
    const { value, diagnostics } = oursSlice({ endpoints });
    expect([...value.endpoints].map(({ address }) => address)).toEqual(["10.0.0.1", "10.0.0.2"]);
    expect(diagnostics.map(({ path }) => path)).toEqual(
      [1, 2, 3, 4, 5, 6, 8, 9].map((at) => `endpoints[${at}].addresses[0]`),
    );
    expect(diagnostics[0]?.reason).toBe('must be an IPv4 address, not "010.1.1.1"');
    expect(diagnostics.at(-1)?.reason).toBe("must be an IPv4 address, not missing");
  });

  test("gets a warning for an invalid trigger time", () => {
    const annotations = { "endpoints.kubernetes.io/last-change-trigger-time": "soon" };
    const labels = { "kubernetes.io/service-name": "web" };
    const { value, diagnostics } = oursSlice({}, { annotations, labels });
    expect(value.lastChangeTriggerTime).toBe(0);
    expect(diagnostics).toMatchObject([{ severity: "warning" }]);
  });

  test("is invalid with a weight that is not text, which the API server rejects", () => {
    const annotations = { "nft-proxy.io/weight": 3 };
    const decoded = decodeEndpointSlice(
      slice({}, { labels: { "kubernetes.io/service-name": "web" }, annotations }),
    );
    expect(decoded).toMatchObject({ kind: "invalid", diagnostics: [{ reason: "must be a string, not 3" }] });
  });

  test("with the label service-proxy-name is used, for only its Service's label counts", () => {
    const labels = { "kubernetes.io/service-name": "web", "service.kubernetes.io/service-proxy-name": "x" };
    expect(decodeEndpointSlice(slice({}, { labels })).kind).toBe("valid");
  });

  test.each([
    ["is an FQDN EndpointSlice", slice({ addressType: "FQDN", endpoints: [{ addresses: ["a.example"] }] })],
    [
      "belongs to a headless Service: it has the label service.kubernetes.io/headless",
      slice({}, { labels: { "service.kubernetes.io/headless": "" } }),
    ],
    ["belongs to no Service: it lacks the label kubernetes.io/service-name", slice({}, { labels: {} })],
  ])("is ignored if it %s", (reason, object) => {
    expect(decodeEndpointSlice(object)).toEqual({ kind: "ignored", reason });
  });

  test.each<[string, string, unknown]>([
    ["", "must have required property 'addressType'", slice({ addressType: undefined })],
    ["addressType", "must be IPv4, IPv6 or FQDN", slice({ addressType: "IPv5" })],
    [
      'metadata.labels["kubernetes.io/service-name"]',
      "must be a DNS label",
      slice({}, { labels: { "kubernetes.io/service-name": "a b" } }),
    ],
    ["metadata.name", "must be a DNS subdomain", slice({}, { name: "a_b" })],
    [
      "endpoints[0].nodeName",
      "must be a DNS subdomain",
      slice({ endpoints: [{ addresses: ["10.0.0.1"], nodeName: "a b" }] }),
    ],
    [
      "endpoints[0].conditions.ready",
      "must be a boolean",
      slice({ endpoints: [{ conditions: { ready: "yes" } }] }),
    ],
    ["ports[0].port", "must be <= 65535", slice({ ports: [{ port: 70000 }] })],
  ])("is refused: %s %s", (path, reason, object) => {
    const decoded = decodeEndpointSlice(object);
    const diagnostics = decoded.kind === "invalid" ? decoded.diagnostics : [];
    expect(diagnostics[0]).toMatchObject({
      path,
      reason: expect.stringContaining(reason),
      severity: "error",
    });
  });
});

describe("a Node", () => {
  test("is decoded with all that concerns a proxy", () => {
    const node = {
      metadata: {
        name: "node-1",
        uid: "u1",
        labels: { "topology.kubernetes.io/zone": "zone-a" },
        deletionTimestamp: "2026-11-20T09:22:44Z",
      },
      spec: {
        podCIDR: "10.244.1.0/24",
        podCIDRs: ["10.244.1.7/24", "fd00::/64"],
        taints: [{ key: "a" }, {}],
      },
      status: {
        addresses: [
          { type: "ExternalIP", address: "203.0.113.1" },
          { type: "ExternalIP", address: "2001:db8::1" },
          { type: "Hostname", address: "node-1" },
          { type: "InternalIP", address: "192.0.2.1" },
          { type: "InternalIP", address: "192.0.2.2" },
        ],
      },
    };
    expect(decodeNode(node)).toEqual({
      kind: "valid",
      diagnostics: [],
      value: {
        name: "node-1",
        uid: "u1",
        zone: "zone-a",
        addresses: { ip: "192.0.2.1", ip6: "2001:db8::1" },
        podCIDRs: { ip: ["10.244.1.0/24"], ip6: ["fd00::/64"] },
        deleting: true,
        taints: ["a"],
      },
    });
  });

  test("needs no more than a name", () => {
    expect(decodeNode({ metadata: { name: "a" } })).toMatchObject({ kind: "valid", diagnostics: [] });
    const single = { metadata: { name: "a" }, spec: { podCIDR: "10.0.0.0/24" } };
    expect(decodeNode(single)).toMatchObject({ value: { podCIDRs: { ip: ["10.0.0.0/24"], ip6: [] } } });
  });

  test("excludes and reports wrong addresses", () => {
    const addresses = [{ type: "InternalIP", address: "x" }, { type: "InternalIP" }];
    const decoded = decodeNode({ metadata: { name: "a" }, spec: { podCIDRs: ["y"] }, status: { addresses } });
    expect(decoded.kind === "valid" && decoded.diagnostics.map(({ path }) => path)).toEqual([
      "status.addresses[0].address",
      "status.addresses[1].address",
      "spec.podCIDRs[0]",
    ]);
  });

  test("is refused without a name", () => {
    expect(decodeNode({ metadata: {} })).toMatchObject({
      kind: "invalid",
      diagnostics: [{ path: "metadata" }],
    });
  });
});

describe("a ServiceCIDR", () => {
  test("keeps its CIDRs by family", () => {
    const object = {
      metadata: { name: "kubernetes", uid: "u" },
      spec: { cidrs: ["10.96.0.0/12", "FD00::/112", "z"] },
    };
    expect(decodeServiceCIDR(object)).toMatchObject({ kind: "invalid" });
    object.spec.cidrs.pop();
    expect(decodeServiceCIDR(object)).toEqual({
      kind: "valid",
      diagnostics: [],
      value: { name: "kubernetes", uid: "u", cidrs: { ip: ["10.96.0.0/12"], ip6: ["fd00::/112"] } },
    });
  });

  test("excludes a wrong CIDR, and is refused when none is left", () => {
    const metadata = { name: "kubernetes" };
    expect(decodeServiceCIDR({ metadata, spec: { cidrs: ["10.96.0.0/12", "z"] } })).toMatchObject({
      kind: "valid",
      diagnostics: [{ path: "spec.cidrs[1]" }],
    });
    expect(decodeServiceCIDR({ metadata, spec: { cidrs: [] } }).kind).toBe("invalid");
    expect(decodeServiceCIDR({ metadata, spec: { cidrs: ["z"] } }).kind).toBe("invalid");
    expect(decodeServiceCIDR({ metadata, spec: {} }).kind).toBe("invalid");
  });
});
