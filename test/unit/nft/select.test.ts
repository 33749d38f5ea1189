import { expect, test } from "vitest";
import type { Table } from "../../../src/nft/ast/ruleset.ts";
import { selectChains, selectElements } from "../../../src/nft/select.ts";
import { elementOwners } from "../../../src/ruleset/ruleset-state.ts";
import { port, renderAll, service, slice } from "../../support/build.ts";

const { state } = renderAll({
  services: [
    service({ name: "web", ports: [port(80, { nodePort: 30080 })] }),
    service({ name: "sticky", clusterIPs: ["10.96.0.11"], affinitySeconds: 600 }),
    service({
      name: "fenced",
      clusterIPs: ["10.96.0.12"],
      loadBalancerIPs: ["203.0.113.7"],
      sourceRanges: ["192.0.2.0/24"],
    }),
  ],
  slices: ["web", "sticky", "fenced"].map((name) =>
    slice({ service: name, endpoints: ["10.244.1.1", "10.244.1.2"] }),
  ),
});

function selected(name: string): Table {
  const family = state.families.ip;
  if (family === undefined) throw new Error("no IPv4");
  const owners = elementOwners(family);
  return selectElements(
    family.table,
    (set, key) => owners.ofElement(set, key).some((owner) => owner.service.name === `default/${name}`),
    "port-protocols",
  );
}

test("selectElements keeps a Service's elements, the chains they lead to and the sets these look into", () => {
  const { chains, sets } = selected("web");
  expect([...chains.keys()]).toEqual(["balance-1", "balance-2"]);
  expect([...sets].map(([name, { elements }]) => `${name} ${elements.size}`).sort()).toEqual([
    "balancers 1",
    "cluster-ips 1",
    "endpoints 2",
    "lists 2",
    "port-protocols 3",
  ]);
});

test("selectElements declares the map that session affinity writes into", () => {
  const { chains, sets } = selected("sticky");
  expect([...chains.keys()]).toEqual(["choose-balance-1", "choose-balance-2", "remember-600", "affinity"]);
  expect(sets.get("affinity-clients")?.elements.size).toBe(0);
});

test("selectElements keeps the source ranges of a Service", () => {
  const { sets } = selected("fenced");
  expect(["source-range-lists", "source-ranges"].map((name) => sets.get(name)?.elements.size)).toEqual([
    1, 2,
  ]);
});

test("selectElements returns no elements for an unknown Service", () => {
  expect(selected("absent")).toMatchObject({ chains: new Map(), sets: new Map() });
});

test("selectChains refuses a chain that the table does not have", () => {
  const { table } = state.families.ip ?? {};
  if (table === undefined) throw new Error("no IPv4");
  expect([...selectChains(table, ["reject-chain"]).chains.keys()]).toEqual(["reject-chain"]);
  expect(() => selectChains(table, ["reject"])).toThrow("no chain reject");
});
