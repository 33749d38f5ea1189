import { describe, expect, test } from "vitest";
import { outcomeText } from "../../../../src/cli/commands/outcome-text.ts";
import { compareOutcomes } from "../../../../src/inspect/outcomes/compare-outcomes.ts";
import { anyTables } from "../../../../src/nft/canonical/any-tables.ts";
import type { NodeContext } from "../../../../src/ruleset/node-context.ts";
import {
  type ContextOptions,
  localEndpoint,
  type Objects,
  port,
  renderAll,
  type ServiceOptions,
  service,
  slice,
  testNodeContext,
} from "../../../support/build.ts";
import { listingOf } from "../../../support/listing.ts";

const [LOCAL, REMOTE] = ["10.244.1.11", "10.244.2.11"];
const HOST = { localAddresses: new Set(["192.0.2.2"]) };

const web = (options: ServiceOptions, endpoints: readonly string[] = [LOCAL, REMOTE]): Objects => ({
  services: [service({ ports: [port(80, { name: "http", nodePort: 30080 })], ...options })],
  slices: [
    slice({
      ports: [{ name: "http", protocol: "tcp", port: 8080 }],
      endpoints: endpoints.map((address) => (address === LOCAL ? localEndpoint(address) : address)),
    }),
  ],
});

function compare(before: Objects, after: Objects, options: ContextOptions = {}, optionsAfter = options) {
  const side = (objects: Objects, context: NodeContext) => ({
    tables: Object.values(renderAll(objects, context).state.ruleset),
    host: HOST,
  });
  const context = testNodeContext(options);
  return compareOutcomes(side(before, context), side(after, testNodeContext(optionsAfter)), context);
}

/** Clients, frontend and changes of each difference. */
function changes(...given: Parameters<typeof compare>): string[] {
  return compare(...given).differences.map(({ frontend, clients, changes }) => {
    const kinds = clients.map(({ kind }) => kind).join(" ");
    return `${kinds} at ${frontend.address}:${frontend.port}: ${changes.join(" ")}`;
  });
}

describe("compareOutcomes", () => {
  test("names endpoints and source if the endpoints change and all of them see another source", () => {
    const differences = changes(web({}), web({ external: "Local" }));
    expect(differences).toContain("outside at 192.0.2.2:30080: endpoints source");
    expect(differences).toContain("pod at 192.0.2.2:30080: source");
  });

  test("names only endpoints if one is replaced, without a line for the endpoint itself", () => {
    expect(changes(web({}), web({}, [LOCAL, "10.244.2.12"]))).toEqual([
      "pod at 10.96.0.10:80: endpoints",
      "node outside at 10.96.0.10:80: endpoints",
      "pod node outside at 192.0.2.2:30080: endpoints",
    ]);
  });

  test.each<[what: string, after: Objects, expected: string]>([
    ["no endpoints", web({}, []), "pod node outside at 192.0.2.2:30080: refused"],
    ["session affinity", web({ affinitySeconds: 600 }), "pod node outside at 192.0.2.2:30080: affinity"],
    ["no Service", {}, "pod node outside at 192.0.2.2:30080: not-handled"],
  ])("names the new outcome of a frontend that gets %s", (_, after, expected) => {
    expect(changes(web({}), after)).toContain(expected);
  });

  test("uses the right interface for clients within and outside of source ranges", () => {
    const guarded = (endpoints: readonly string[]) =>
      web(
        { loadBalancerIPs: ["203.0.113.7"], sourceRanges: ["192.0.2.128/25"], external: "Local" },
        endpoints,
      );
    const byInterface: ContextOptions = { localTraffic: { kind: "interface", pattern: "cni0" } };
    const differences = changes(guarded([LOCAL]), guarded([REMOTE]), byInterface);
    expect(differences).toContain("range range at 203.0.113.7:80: dropped");
  });

  test("compares NodePorts at each address that one side alone serves", () => {
    const addresses = [11, 12, 13, 14, 15].map((n) => `198.51.100.${n}`);
    const nodePorts = (served: readonly string[]): ContextOptions => ({
      nodePorts: { kind: "addresses", addresses: served },
    });
    expect(
      changes(web({}), web({}), nodePorts(addresses), nodePorts([...addresses, "198.51.100.16"])),
    ).toEqual(["pod node outside at 198.51.100.16:30080: served"]);
  });

  test("names the source where the share of masqueraded connections to an endpoint changes", () => {
    const at = { family: "ip", table: "nft-proxy" };
    const tables = (mod: number) =>
      anyTables(
        listingOf([
          { map: { ...at, name: "service-ips", type: "ipv4_addr", map: "verdict", elem: [] } },
          { set: { ...at, name: "cluster-ips", type: "ipv4_addr", elem: ["10.96.0.10"] } },
          { chain: { ...at, name: "n", type: "nat", hook: "prerouting", prio: -100 } },
          { rule: { ...at, chain: "n", expr: [{ dnat: { addr: "10.244.1.11" } }] } },
          { chain: { ...at, name: "p", type: "nat", hook: "postrouting", prio: 100 } },
          {
            rule: {
              ...at,
              chain: "p",
              expr: [
                { match: { op: "==", left: { numgen: { mode: "random", mod } }, right: 0 } },
                { masquerade: null },
              ],
            },
          },
        ]),
      );
    const { differences } = compareOutcomes(
      { tables: tables(2), host: HOST },
      { tables: tables(4), host: HOST },
      testNodeContext(),
    );
    expect(differences.map(({ changes }) => changes)).toEqual([["source"]]);
  });

  test("finds no difference between the same objects", () => {
    const { differences, frontends } = compare(web({}), web({}));
    expect(differences).toEqual([]);
    expect(frontends).toBeGreaterThan(1);
  });
});

test("the text of a comparison ends with how much was compared", () => {
  const text = (after: Objects) => {
    const comparison = compare(web({}), after);
    const differences = comparison.differences.map((one) => ({ ...one, service: "default/web:http" }));
    return outcomeText({ ...comparison, differences, sides: ["old", "new"], diagnostics: [], notices: [] });
  };
  expect(text(web({}, []))).toMatch(/\noutcomes differ at 2 of 11 frontends; \d+ connections compared\n$/);
  expect(text(web({}))).toMatch(/^no difference: 11 frontends, \d+ connections compared\n$/);
});
