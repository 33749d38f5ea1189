import { describe, expect, test } from "vitest";
import { outcomeText } from "../../../../src/cli/print/outcome-report.ts";
import { compareOutcomes } from "../../../../src/inspect/outcomes/compare-outcomes.ts";
import {
  localEndpoint,
  type Objects,
  port,
  renderAll,
  type ServiceOptions,
  service,
  slice,
  testNodeContext,
} from "../../../support/build.ts";

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

function compare(before: Objects, after: Objects) {
  const [old, next] = [before, after].map((objects) => ({
    tables: Object.values(renderAll(objects).state.ruleset),
    host: HOST,
  }));
  if (old === undefined || next === undefined) throw new Error("no sides");
  return compareOutcomes(old, next, testNodeContext());
}

/** Clients, frontend and changes of each difference. */
function changes(before: Objects, after: Objects): string[] {
  return compare(before, after).differences.map(({ frontend, clients, changes }) => {
    const kinds = clients.map(({ kind }) => kind).join(" ");
    return `${kinds} at ${frontend.address}:${frontend.port}: ${changes.join(" ")}`;
  });
}

describe("compareOutcomes", () => {
  test("names endpoints and source where endpoints change and all of them see another source", () => {
    const differences = changes(web({}), web({ external: "Local" }));
    expect(differences).toContain("outside at 192.0.2.2:30080: endpoints source");
    expect(differences).toContain("pod at 192.0.2.2:30080: source");
  });

  test("names endpoints alone where one is replaced, without a line for the endpoint itself", () => {
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

  test("finds nothing between the same objects", () => {
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
