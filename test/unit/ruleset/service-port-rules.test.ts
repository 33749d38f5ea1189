import { describe, expect, test } from "vitest";
import { endpointsOf } from "../../../src/model/endpoint.ts";
import type { SliceEndpoint } from "../../../src/model/endpoint-slice.ts";
import { chooseEndpoints } from "../../../src/model/topology.ts";
import {
  type BalancedList,
  type DesiredElement,
  idElementOf,
  indexedSet,
  indexedValues,
  indexKey,
} from "../../../src/ruleset/endpoint-lists/endpoint-lists.ts";
import { type FrontendRules, renderServicePort } from "../../../src/ruleset/service-port-rules.ts";
import {
  endpoint,
  familyContext,
  HERE,
  localEndpoint,
  port,
  type ServiceOptions,
  servicePort,
  slice,
} from "../../support/build.ts";

const CLUSTER = "10.96.0.10 . tcp . 80";
const EXTERNAL = "203.0.113.1 . tcp . 80";
const NODEPORT = "tcp . 30080";
const reachable: ServiceOptions = { externalIPs: ["203.0.113.1"], ports: [port(80, { nodePort: 30080 })] };

function render(options: ServiceOptions, endpoints: readonly (SliceEndpoint | string)[]) {
  const given = servicePort(options);
  const known = endpointsOf([slice({ endpoints, family: "ip" })], given, HERE.name);
  return renderServicePort(given, chooseEndpoints(given, known, HERE), familyContext("ip"));
}

/** Indexes from 0 on; 65536 and more are those of the short-cut list. */
function plainIndex(text: string): string {
  return text.replace(/ \. (\d{10})$/, (whole, index) => (index < 0xc000_0000 ? ` . ${index - 0x8000_0000}` : whole));
}

function listElements(of: FrontendRules, list: BalancedList): DesiredElement[] {
  const set = indexedSet(of.kind, list);
  const indexed = indexedValues(list).map((value, i) => ({ set, key: indexKey(of, list, i), value }));
  const byId = (list.ids ?? []).map((id, i) => ({ ...idElementOf(of, id), value: list.targets[i] ?? "" }));
  return [...indexed, ...byId];
}

/** The elements of one frontend, as `set key: value`. */
function frontend(key: string, options: ServiceOptions, endpoints: readonly (SliceEndpoint | string)[]): string[] {
  const found = render(options, endpoints).frontends.find((each) => each.key === key);
  if (found === undefined) throw new Error(`no frontend ${key}`);
  const elements = [...found.elements, ...found.lists.flatMap((list) => listElements(found, list))];
  return elements.map(({ set, key: element, value }) => `${set} ${plainIndex(element.replace(key, "K"))}: ${value}`);
}

const elsewhere = "10.244.2.1";
const here = localEndpoint("10.244.1.1");

describe("a cluster IP", () => {
  test.each<[string, ServiceOptions, readonly (SliceEndpoint | string)[], readonly string[]]>([
    [
      "is balanced over indexes",
      {},
      [elsewhere, "10.244.2.2"],
      ["service-ips K: goto balance-2", "endpoints K . 0: 10.244.2.1 . 8080", "endpoints K . 1: 10.244.2.2 . 8080"],
    ],
    ["is refused without endpoints", {}, [], ["no-endpoint-services K: goto reject-chain"]],
    [
      "is balanced over local endpoints by internal Local policy",
      { internal: "Local" },
      [elsewhere, here],
      ["service-ips K: goto balance-1", "endpoints K . 0: 10.244.1.1 . 8080"],
    ],
    [
      "is dropped by internal Local policy with endpoints elsewhere only",
      { internal: "Local" },
      [elsewhere],
      ["no-endpoint-services K: goto drop-chain"],
    ],
    [
      "is refused by internal Local policy without any endpoint",
      { internal: "Local" },
      [],
      ["no-endpoint-services K: goto reject-chain"],
    ],
    [
      "ignores external Local policy",
      { ...reachable, external: "Local" },
      [elsewhere],
      ["service-ips K: goto balance-1", "endpoints K . 0: 10.244.2.1 . 8080"],
    ],
  ])("%s", (_, options, endpoints, expected) => {
    expect(new Set(frontend(CLUSTER, options, endpoints))).toEqual(new Set(expected));
  });

  test("with affinity is balanced over indexes to ids, and ids to endpoints", () => {
    const [dispatch, toId, toEndpoint] = frontend(CLUSTER, { affinitySeconds: 60 }, [elsewhere]);
    const id = toId?.split(": ")[1];
    expect([dispatch, toId, toEndpoint]).toEqual([
      "service-ips K: goto affinity-1-60",
      `affinity-ids K . 0: ${id}`,
      `endpoints K . ${id}: 10.244.2.1 . 8080`,
    ]);
    expect(Number(id)).toBeGreaterThanOrEqual(2 ** 31);
  });
});

describe.each([
  ["an external IP", EXTERNAL, "service-ips", "external-ips", "shortcut-ips", "endpoints", "no-endpoint-services", ""],
  [
    "a NodePort",
    NODEPORT,
    "service-nodeports",
    "external-nodeports",
    "shortcut-nodeports",
    "nodeport-endpoints",
    "no-endpoint-nodeports",
    "nodeport-",
  ],
])("%s", (_, key, services, external, shortcut, endpoints, noEndpoints, prefix) => {
  test("is masqueraded and balanced by Cluster policy", () => {
    expect(frontend(key, reachable, [elsewhere])).toEqual([
      `${external} K: jump mark-for-masquerade`,
      `${services} K: goto ${prefix}balance-1`,
      `${endpoints} K . 0: 10.244.2.1 . 8080`,
    ]);
  });

  test("has two lists by Local policy", () => {
    expect(frontend(key, { ...reachable, external: "Local" }, [elsewhere, here])).toEqual([
      `${external} K: jump ${prefix}external-local`,
      `${shortcut} K: goto ${prefix}balance-cluster-2`,
      `${services} K: goto ${prefix}balance-1`,
      `${endpoints} K . 65536: 10.244.1.1 . 8080`,
      `${endpoints} K . 65537: 10.244.2.1 . 8080`,
      `${endpoints} K . 0: 10.244.1.1 . 8080`,
    ]);
  });

  test("is dropped but for the short cut by Local policy without a local endpoint", () => {
    expect(frontend(key, { ...reachable, external: "Local" }, [elsewhere])).toEqual([
      `${external} K: jump ${prefix}external-local`,
      `${shortcut} K: goto ${prefix}balance-cluster-1`,
      `${noEndpoints} K: goto drop-chain`,
      ...(prefix === "" ? [`${services} K: return`] : []),
      `${endpoints} K . 65536: 10.244.2.1 . 8080`,
    ]);
  });

  test.each(["Cluster", "Local"] as const)("is refused without endpoints, by %s policy", (policy) => {
    expect(frontend(key, { ...reachable, external: policy }, [])).toEqual([`${noEndpoints} K: goto reject-chain`]);
  });

  test("keeps the clients of its two lists apart by their ids", () => {
    const options: ServiceOptions = { ...reachable, external: "Local", affinitySeconds: 60 };
    const ids = frontend(key, options, [here])
      .filter((text) => text.startsWith(`${prefix}affinity-ids `))
      .map((text) => text.split(": ")[1]);
    expect(ids).toHaveLength(2);
    expect(new Set(ids).size).toBe(2);
    const clusterPolicy = frontend(key, { ...options, external: "Cluster" }, [here]);
    expect(clusterPolicy.some((text) => ids.some((id) => text.endsWith(`: ${id}`)))).toBe(false);
  });
});

describe("frontends", () => {
  test("are one for each address, sorted, however often it is named", () => {
    const options: ServiceOptions = {
      externalIPs: ["203.0.113.9", "203.0.113.1", "10.96.0.10"],
      loadBalancerIPs: ["203.0.113.9", "203.0.113.5"],
    };
    expect(render(options, [elsewhere]).frontends.map(({ key }) => key)).toEqual([
      CLUSTER,
      "203.0.113.1 . tcp . 80",
      "203.0.113.5 . tcp . 80",
      "203.0.113.9 . tcp . 80",
    ]);
  });

  test("are guarded by a firewall chain where the load balancer has the address", () => {
    const options = { externalIPs: ["203.0.113.1"], loadBalancerIPs: ["203.0.113.5"], sourceRanges: ["10.0.0.0/8"] };
    const guards = render(options, [elsewhere]).frontends.map(({ firewall }) => firewall?.name);
    expect(guards).toEqual([undefined, undefined, "firewall-default/web/tcp/"]);
  });
});

test("hairpin elements exist for the local endpoints of either list, once each", () => {
  const shared = (options: ServiceOptions, endpoints: readonly (SliceEndpoint | string)[]) =>
    render(options, endpoints).shared.map(({ set, key }) => `${set} ${key}`);
  const own = "cluster-ips 10.96.0.10";
  const hairpin = "hairpin-connections 10.244.1.1 . 10.244.1.1 . tcp . 8080";
  expect(shared({}, [elsewhere, here])).toEqual([own, hairpin]);
  expect(shared({ ...reachable, external: "Local" }, [here, elsewhere])).toEqual([own, hairpin]);
  expect(shared({}, [elsewhere])).toEqual([own]);
  const draining = localEndpoint("10.244.1.1", { ready: false, terminating: true });
  expect(shared({ ...reachable, external: "Local" }, [draining, elsewhere])).toEqual([own, hairpin]);
  expect(shared({}, [draining, endpoint(elsewhere)])).toEqual([own]);
});
