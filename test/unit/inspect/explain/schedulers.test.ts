import { describe, expect, test } from "vitest";
import { explained } from "../../../support/explained.ts";

const NODE = `
apiVersion: v1
kind: Node
metadata: { name: node-1 }
spec: { podCIDRs: [10.244.1.0/24] }
status: { addresses: [{ type: InternalIP, address: 192.0.2.2 }] }
`;

const service = (annotations: string, spec = "") => `
---
apiVersion: v1
kind: Service
metadata: { namespace: shop, name: cart, annotations: { ${annotations} } }
spec: { clusterIP: 10.96.0.7, clusterIPs: [10.96.0.7], ports: [{ name: http, port: 80, nodePort: 30080 }], type: NodePort${spec} }
`;

const slice = (name: string, addresses: readonly string[], annotations = "") => `
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { namespace: shop, name: ${name}, labels: { kubernetes.io/service-name: cart }, annotations: { ${annotations} } }
addressType: IPv4
ports: [{ name: http, port: 8080 }]
endpoints: [${addresses.map((address) => `{ addresses: [${address}] }`).join(", ")}]
`;

const THREE = slice("cart-1", ["10.244.1.5", "10.244.2.5", "10.244.3.5"]);
const SOURCE_HASH = "nft-proxy.io/scheduler: source-hash";
const TO = { to: "10.96.0.7", port: "80" };

const shares = async (manifests: string, flags: Readonly<Record<string, string>>) => {
  const { explanations, text } = await explained(NODE + manifests, flags);
  const [explanation] = explanations;
  const endpoints = explanation?.endpoints.map(({ address, probability, excluded }) => [
    address,
    excluded?.reason ?? probability,
  ]);
  return {
    explanation,
    endpoints,
    text,
    notes: explanation?.notes.map(({ topic, message }) => `${topic}: ${message}`),
  };
};

describe("explain", () => {
  test("with source-hash names the endpoint and slot of a given client", async () => {
    const ends = await Promise.all(
      ["10.244.1.20", "10.244.1.21", "10.244.1.22", "10.244.1.23", "10.244.1.24"].map(async (from) => {
        const { explanation, endpoints, notes } = await shares(service(SOURCE_HASH) + THREE, {
          ...TO,
          "from-ip": from,
        });
        expect(explanation?.verdict.message).toBe(
          "goes to the endpoint that the hash selects for this client, of shop/cart port http (80/tcp)",
        );
        expect(endpoints?.filter(([, share]) => share === "hash")).toHaveLength(2);
        expect(notes?.join()).toMatch(
          /scheduler: source-hash \(annotation nft-proxy.io\/scheduler\): this client has slot \d+ of 251/,
        );
        const used = endpoints?.filter(([, share]) => share === 1) ?? [];
        expect(used).toHaveLength(1);
        return used[0]?.[0];
      }),
    );
    expect(new Set(ends).size).toBeGreaterThan(1);
  });

  test.each([
    [
      "round-robin",
      "round-robin (annotation nft-proxy.io/scheduler): the next of 3 endpoints",
      [1 / 3, 1 / 3, 1 / 3],
    ],
    [
      "flow-hash",
      "flow-hash (annotation nft-proxy.io/scheduler): one of 251 slots by the addresses and ports",
      undefined,
    ],
    [
      "source-hash",
      "source-hash (annotation nft-proxy.io/scheduler): one of 251 slots by the client's address",
      undefined,
    ],
  ])("shows the shares of %s for an assumed client", async (scheduler, message, expected) => {
    const { endpoints, notes } = await shares(service(`nft-proxy.io/scheduler: ${scheduler}`) + THREE, TO);
    expect(notes?.join()).toContain(`scheduler: ${message}`);
    const given = endpoints?.map(([, share]) => Number(share)) ?? [];
    for (const [i, share] of given.entries()) {
      expect(share).toBeCloseTo(expected?.[i] ?? 1 / 3, expected === undefined ? 1 : 3);
    }
  });

  test("with source-hash shows shares for every frontend of a Service", async () => {
    const { text } = await explained(NODE + service(SOURCE_HASH) + THREE, { service: "shop/cart" });
    expect(text).not.toContain("100 %");
    expect(text.match(/goes to one of 3 endpoints/g)).toHaveLength(2);
  });

  test("names --scheduler as the origin of the scheduler", async () => {
    const { notes } = await shares(service("") + THREE, { ...TO, scheduler: "round-robin" });
    expect(notes?.join()).toContain("scheduler: round-robin (--scheduler)");
  });

  test("shows the shares of weights, and drained endpoints", async () => {
    const slices =
      slice("cart-1", ["10.244.1.5"]) +
      slice("cart-2", ["10.244.2.5"], 'nft-proxy.io/weight: "3"') +
      slice("cart-3", ["10.244.3.5"], 'nft-proxy.io/weight: "0"');
    const { endpoints, notes } = await shares(service("") + slices, TO);
    expect(endpoints?.[0]?.[1]).toBeCloseTo(0.25, 1);
    expect(endpoints?.[1]?.[1]).toBeCloseTo(0.75, 1);
    expect(endpoints?.[2]).toEqual(["10.244.3.5", "drained"]);
    expect(notes?.join()).toContain(
      "scheduler: random (weights by the annotation nft-proxy.io/weight): one of 251 slots",
    );
  });

  test("does not mention the scheduler if it is random and all weights are equal", async () => {
    expect((await shares(service("") + THREE, TO)).notes?.join()).not.toContain("scheduler");
  });

  test("notes that session affinity keeps the scheduler's choice", async () => {
    const manifests = service(SOURCE_HASH, ", sessionAffinity: ClientIP") + THREE;
    const { notes } = await shares(manifests, { ...TO, "from-ip": "10.244.1.20" });
    expect(notes?.join()).toMatch(/slot \d+ of 251; session affinity keeps the choice/);
  });
});

describe("explain --to 127.0.0.1", () => {
  const LOOPBACK = { to: "127.0.0.1", port: "30080", "nodeport-addresses": "primary,localhost" };

  test("follows the connection that nft-proxy makes", async () => {
    const { explanation, endpoints, notes, text } = await shares(service("") + THREE, LOOPBACK);
    expect(explanation?.connection).toMatchObject({ to: "127.0.0.1", from: { at: "node" } });
    expect(explanation?.verdict.result).toBe("served");
    expect(endpoints?.map(([, share]) => Number(share).toFixed(2))).toEqual(["0.33", "0.33", "0.33"]);
    expect(notes?.[0]).toContain("loopback: nft-proxy run listens on this address");
    expect(text).toContain("192.0.0.8");
  });

  test("with external Local policy goes to endpoints of this node", async () => {
    const local = THREE.replace(
      "{ addresses: [10.244.1.5] }",
      "{ addresses: [10.244.1.5], nodeName: node-1 }",
    );
    const { endpoints } = await shares(service("", ", externalTrafficPolicy: Local") + local, LOOPBACK);
    expect(endpoints).toEqual([
      ["10.244.1.5", 1],
      ["10.244.2.5", "not-local"],
      ["10.244.3.5", "not-local"],
    ]);
  });

  test("is refused without endpoints", async () => {
    const { explanation } = await shares(service(""), LOOPBACK);
    expect(explanation?.verdict.result).toBe("refused");
  });

  test("is not handled if --nodeport-addresses does not include localhost", async () => {
    const { explanation } = await shares(service("") + THREE, { to: "127.0.0.1", port: "30080" });
    expect(explanation?.verdict).toMatchObject({ result: "not-handled", cause: "node-port-address" });
  });
});
