import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { apiServerErrors } from "../../../../src/inspect/check/api-server-errors.ts";
import { readFiles } from "../../../../src/kube/files/read-files.ts";

const directory = mkdtempSync(join(tmpdir(), "api-server-errors-"));
afterAll(() => rmSync(directory, { recursive: true }));

function read(...documents: string[]) {
  const path = join(directory, "objects.yaml");
  writeFileSync(path, documents.join("\n---\n"));
  return readFiles([path], process.stdin, { thorough: true, placeholders: true });
}

async function errorsOf(...documents: string[]): Promise<string[]> {
  const result = await read(...documents);
  expect(result.diagnostics).toEqual([]);
  return apiServerErrors(result).map(({ line, path: field, reason, severity }) => {
    expect(severity).toBe("error");
    return `${line} ${field} ${reason.replaceAll(directory, "")}`;
  });
}

const service = (spec: string, name = "web", type = "ClusterIP") => `apiVersion: v1
kind: Service
metadata: {name: ${name}, namespace: shop}
spec:
  type: ${type}
${spec}`;

const PORT = "  ports: [{port: 80}]";

describe("an unknown field", () => {
  test.each([
    [
      "of the spec",
      `${PORT}\n  externalTrafficPolice: Local`,
      "7 spec.externalTrafficPolice",
      "externalTrafficPolicy",
    ],
    ["of a port", "  ports: [{port: 80, nodeport: 30080}]", "6 spec.ports[0].nodeport", "nodePort"],
    ["in a different case", `${PORT}\n  externalIps: []`, "7 spec.externalIps", "externalIPs"],
  ])("%s is an error that names the nearest field", async (_name, spec, place, near) => {
    expect(await errorsOf(service(spec))).toEqual([
      `${place} is not a field of the API: did you mean ${near}?`,
    ]);
  });

  test("that resembles no field is an error without a suggestion", async () => {
    const errors = await errorsOf(service(`${PORT}\n  weather: fine`));
    expect(errors).toEqual(["7 spec.weather is not a field of the API"]);
  });

  test("of an ignored Service or of an EndpointSlice is an error", async () => {
    const slice = `apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: shop, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
endpoints: [{addresses: [10.0.0.1], condition: {ready: true}}]`;
    expect(await errorsOf(service("  clusterIP: None\n  selectors: {}"), slice)).toEqual([
      "7 spec.selectors is not a field of the API: did you mean selector?",
      "13 endpoints[0].condition is not a field of the API: did you mean conditions?",
    ]);
  });

  test("of an object with other errors is an error, too", async () => {
    const result = await read(service("  ports: [{prot: 80}]"));
    expect(result.diagnostics.map(({ path, reason }) => `${path} ${reason}`)).toEqual([
      "spec.ports[0] must have required property 'port'",
    ]);
    expect(apiServerErrors(result).map(({ path, reason }) => `${path} ${reason}`)).toEqual([
      "spec.ports[0].prot is not a field of the API: did you mean port?",
    ]);
  });

  test("within labels, annotations and selectors is no error", async () => {
    const text = service(`${PORT}\n  selector: {anything: goes}`).replace(
      "namespace: shop",
      "labels: {any: thing}",
    );
    expect(await errorsOf(text)).toEqual([]);
  });
});

describe("an annotation", () => {
  test.each([
    ["ignore-check.nft-proxy.io/duplicate-prt", "names no diagnostic: did you mean duplicate-port?"],
    ["ignore-check.nft-proxy.io/no-endpoints", undefined],
    ["nft-proxy.io/schedular", undefined],
  ])("%s is a warning if it excludes a diagnostic that does not exist", async (name, reason) => {
    const text = service(PORT).replace("namespace: shop", `annotations: {${name}: random}`);
    const found = apiServerErrors(await read(text));
    expect(found.map(({ code, severity, line, reason: why }) => [code, severity, line, why])).toEqual(
      reason === undefined ? [] : [["unknown-annotation", "warning", 3, reason]],
    );
  });
});

test("a misspelt annotation of a Service that is not served is a warning", async () => {
  const text = service(PORT).replace("namespace: shop", "annotations: {nft-proxy.io/schedular: random}");
  const headless = text.replace("spec:", "spec:\n  clusterIP: None");
  expect(apiServerErrors(await read(headless)).map(({ code, reason }) => [code, reason])).toEqual([
    ["unknown-annotation", "is not an annotation of nft-proxy (did you mean scheduler?)"],
  ]);
});

describe("strict checks report what the API server would refuse, though a proxy could serve it:", () => {
  test.each<[string, string, string, string]>([
    [
      "ClusterIP",
      "  ports: [{port: 80, nodePort: 30080}]",
      "6 spec.ports[0].nodePort",
      "may not be used when `type` is 'ClusterIP'",
    ],
    [
      "NodePort",
      "  ports: [{port: 80, nodePort: 80}]",
      "6 spec.ports[0].nodePort",
      "is not in the node port range 30000-32767",
    ],
    [
      "ClusterIP",
      "  ports: [{port: 80, name: a}, {port: 81}]",
      "6 spec.ports[1].name",
      "is required if there are several ports",
    ],
    [
      "NodePort",
      "  clusterIP: None",
      "6 spec.clusterIP",
      "may not be set to 'None' for NodePort and LoadBalancer services",
    ],
    ["ExternalName", PORT, "4 spec.externalName", "is required with type ExternalName"],
    [
      "ClusterIP",
      `${PORT}\n  externalTrafficPolicy: Local`,
      "7 spec.externalTrafficPolicy",
      "may only be set for externally accessible Services: of type NodePort or LoadBalancer, or with externalIPs",
    ],
    [
      "NodePort",
      `${PORT}\n  healthCheckNodePort: 30001`,
      "7 spec.healthCheckNodePort",
      "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
    ],
    [
      "ClusterIP",
      `${PORT}\n  sessionAffinityConfig: {clientIP: {timeoutSeconds: 5}}`,
      "7 spec.sessionAffinityConfig",
      "must not be set when session affinity is None",
    ],
  ])("type %s with %j", async (type, spec, place, reason) => {
    expect(await errorsOf(service(spec, "web", type))).toEqual([`${place} ${reason}`]);
  });

  test("a port without a name, also of a Service with other errors", async () => {
    const spec = (rest: string) => service(`  ports: [{port: 80, name: a}, {port: 81}]\n${rest}`);
    const paths = async (rest: string) => apiServerErrors(await read(spec(rest))).map(({ path }) => path);
    expect(await paths("  externalIPs: [5]\n  externalTrafficPolicy: Local")).toEqual(["spec.ports[1].name"]);
    expect(await paths("  externalTrafficPolicy: 5")).toEqual(["spec.ports[1].name"]);
    expect(
      apiServerErrors(await read(service("  ports: [{port: 80, name: 5}, {port: 81, name: b}]"))),
    ).toEqual([]);
  });

  test("a node port of two Services, unless one is TCP and the other UDP", async () => {
    const ports = (protocol: string) => `  ports: [{port: 80, nodePort: 30080, protocol: ${protocol}}]`;
    expect(
      await errorsOf(
        service(ports("TCP"), "a", "NodePort"),
        service(ports("UDP"), "b", "NodePort"),
        service(ports("TCP"), "c", "LoadBalancer"),
      ),
    ).toEqual([
      "20 spec.ports[0].nodePort 30080 belongs to Service shop/a (/objects.yaml:1), which is older or comes first by name",
    ]);
  });

  test("a cluster IP of two Services, also of one with other errors", async () => {
    const spec = (port: string) => `  clusterIP: 10.96.0.7\n  ports: [{port: ${port}}]`;
    const result = await read(service(spec("80"), "a"), service(spec("81"), "b"), service(spec('"82"'), "c"));
    const duplicates = apiServerErrors(result).filter(({ code }) => code === "duplicate-cluster-ip");
    expect(duplicates.map(({ line, path, object }) => `${line} ${object} ${path}`)).toEqual([
      "14 Service shop/b spec.clusterIP",
      "22 Service shop/c spec.clusterIP",
    ]);
    expect(duplicates[0]?.reason.replace(directory, "")).toBe(
      "10.96.0.7 belongs to Service shop/a (/objects.yaml:1), which is older or comes first by name",
    );
  });

  test("report a node port of two ports of one Service once", async () => {
    const ports = ["a", "b"].map((name, index) => `{name: ${name}, port: ${80 + index}, nodePort: 30080}`);
    const result = await read(service(`  ports: [${ports.join(", ")}]`, "web", "NodePort"));
    expect(result.diagnostics).toHaveLength(1);
    expect(apiServerErrors(result)).toEqual([]);
  });

  test("a node port of two Services, at the younger one, though it comes first", async () => {
    const ports = "  ports: [{port: 80, nodePort: 30080}]";
    const old = service(ports, "z", "NodePort").replace(
      "metadata: {",
      'metadata: {creationTimestamp: "2020-01-01T00:00:00Z", ',
    );
    const young = service(ports, "a", "NodePort").replace(
      "metadata: {",
      'metadata: {creationTimestamp: "2024-01-01T00:00:00Z", ',
    );
    expect(await errorsOf(young, old)).toEqual([
      "6 spec.ports[0].nodePort 30080 belongs to Service shop/z (/objects.yaml:8), which is older or comes first by name",
    ]);
  });
});

test.each(["town", "town-after"])(
  "strict checks find no errors in the objects of %s, which an API server accepted",
  async (name) => {
    const paths = [`test/fixtures/${name}/objects`];
    expect(apiServerErrors(await readFiles(paths, process.stdin, { thorough: true }))).toEqual([]);
  },
);
