import { describe, expect, test } from "vitest";
import { chooseEndpoints } from "../../../src/model/endpoint-choice.ts";
import type { SliceEndpoint } from "../../../src/model/endpoint-slice.ts";
import { type Balancer, balancerName, chooserName } from "../../../src/ruleset/chain-names.ts";
import { PORTS } from "../../../src/ruleset/frontend-kinds.ts";
import { MOST_STICKY_ENDPOINTS } from "../../../src/ruleset/list-ids.ts";
import { limitExceededBy, renderServicePort } from "../../../src/ruleset/service-port-rules.ts";
import { listIdentity } from "../../../src/ruleset/source-ranges.ts";
import {
  type ContextOptions,
  endpoint,
  endpointsOf,
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
const NODEPORT = "0.0.0.0 . tcp . 30080";
const reachable: ServiceOptions = { externalIPs: ["203.0.113.1"], ports: [port(80, { nodePort: 30080 })] };

type Endpoints = readonly (SliceEndpoint | string)[];

function render(options: ServiceOptions, endpoints: Endpoints, context: ContextOptions = {}) {
  const given = servicePort(options);
  const known = endpointsOf([slice({ endpoints, family: "ip" })], given, HERE.name);
  return renderServicePort(given, chooseEndpoints(given, known, HERE), familyContext("ip", context));
}

/** The way of one frontend, its refusal, and the id of the source ranges that guard it. */
function frontend(key: string, options: ServiceOptions, endpoints: Endpoints): string[] {
  const found = render(options, endpoints).frontends.find((each) => each.key === key);
  if (found === undefined) throw new Error(`no frontend ${key}`);
  return [found.way ?? "no way", found.refusal ?? [], found.guard?.id ?? []].flat();
}

/** The lists of a service port, each with its chain and, with affinity, how it draws and for how long. */
function lists(
  options: ServiceOptions,
  endpoints: Endpoints,
  context: ContextOptions = {},
): Record<string, readonly string[]> {
  const { cluster, local } = render(options, endpoints, context).lists;
  const named = Object.entries({ cluster, local }).flatMap(([name, list]) =>
    list === undefined ? [] : [[`${name} by ${balancerText(list.balancer)}`, list.targets] as const],
  );
  return Object.fromEntries(named);
}

function balancerText(balancer: Balancer): string {
  const { affinitySeconds } = balancer;
  const name = balancerName(balancer, PORTS);
  return affinitySeconds === 0 ? name : `${name}, ${chooserName(balancer)} for ${affinitySeconds} s`;
}

const elsewhere = "10.244.2.1";
const here = localEndpoint("10.244.1.1");

describe("a cluster IP", () => {
  test.each<[string, ServiceOptions, Endpoints, readonly string[]]>([
    ["leads to the endpoints of the cluster", {}, [elsewhere, "10.244.2.2"], ["cluster"]],
    ["is refused without endpoints", {}, [], ["no way", "no-endpoints"]],
    [
      "leads to local endpoints by internal Local policy",
      { internal: "Local" },
      [elsewhere, here],
      ["local"],
    ],
    [
      "is dropped by internal Local policy with endpoints elsewhere only",
      { internal: "Local" },
      [elsewhere],
      ["no way", "no-local-endpoints"],
    ],
    [
      "is refused by internal Local policy without any endpoint",
      { internal: "Local" },
      [],
      ["no way", "no-endpoints"],
    ],
    ["ignores external Local policy", { ...reachable, external: "Local" }, [elsewhere], ["cluster"]],
  ])("%s", (_, options, endpoints, expected) => {
    expect(frontend(CLUSTER, options, endpoints)).toEqual(expected);
  });
});

describe.each([
  ["an external IP", EXTERNAL],
  ["a NodePort", NODEPORT],
])("%s", (_, key) => {
  test("leads to the endpoints of the cluster by Cluster policy", () => {
    expect(frontend(key, reachable, [elsewhere])).toEqual(["external-cluster"]);
  });

  test("has a way of its own by Local policy", () => {
    expect(frontend(key, { ...reachable, external: "Local" }, [elsewhere, here])).toEqual(["external-local"]);
  });

  test("is dropped but for the short cut by Local policy without a local endpoint", () => {
    expect(frontend(key, { ...reachable, external: "Local" }, [elsewhere])).toEqual([
      "external-local",
      "no-local-endpoints",
    ]);
  });

  test.each(["Cluster", "Local"] as const)("is refused without endpoints, by %s policy", (policy) => {
    expect(frontend(key, { ...reachable, external: policy }, [])).toEqual(["no way", "no-endpoints"]);
  });
});

describe("the lists of a service port", () => {
  const both = [elsewhere, here];

  test("are one of the cluster's endpoints, whatever leads to it", () => {
    const expected = { "cluster by balance-2": ["10.244.1.1 . 8080", "10.244.2.1 . 8080"] };
    expect(lists({}, both)).toEqual(expected);
    expect(lists(reachable, both)).toEqual(expected);
  });

  test("are two by an external policy of Local", () => {
    expect(lists({ ...reachable, external: "Local" }, both)).toEqual({
      "cluster by balance-2": ["10.244.1.1 . 8080", "10.244.2.1 . 8080"],
      "local by balance-1": ["10.244.1.1 . 8080"],
    });
  });

  test("with affinity keep clients for the rounded timeout, and for as long as the option allows", () => {
    const names = (maxAffinitySeconds: number) =>
      [59, 60, 61].map((affinitySeconds) =>
        Object.keys(lists({ affinitySeconds }, [elsewhere], { maxAffinitySeconds })),
      );
    const name = (seconds: number) => [`cluster by affinity, choose-balance-1 for ${seconds} s`];
    expect(names(60)).toEqual([name(59), name(60), name(60)]);
    expect(names(86_400)).toEqual([name(59), name(60), name(65)]);
  });

  test("with affinity have chains of their own, as clients must not stay where a policy forbids it", () => {
    expect(Object.keys(lists({ ...reachable, external: "Local", affinitySeconds: 60 }, both))).toEqual([
      "cluster by affinity-both, choose-balance-2 for 60 s",
      "local by affinity-both-local, choose-balance-1 for 60 s",
    ]);
    expect(Object.keys(lists({ internal: "Local", affinitySeconds: 60 }, both))).toContain(
      "local by affinity-local, choose-balance-1 for 60 s",
    );
  });

  test("with more than 64 endpoints have the chain of the next number of the grid", () => {
    const many = Array.from({ length: 66 }, (_, i) => `10.244.3.${i}`);
    const named = (options: ServiceOptions, count: number) =>
      Object.keys(lists(options, many.slice(0, count)));
    expect(named({}, 64)).toEqual(["cluster by balance-64"]);
    expect(named({}, 66)).toEqual(["cluster by balance-72"]);
    expect(named({ affinitySeconds: 60 }, 66)).toEqual(["cluster by affinity, choose-balance-72 for 60 s"]);
    expect(Object.values(lists({}, many))).toEqual([many.map((address) => `${address} . 8080`).sort()]);
  });

  test("with affinity exceed a limit with more endpoints than there are ids, and without it do not", () => {
    const many = Array.from(
      { length: MOST_STICKY_ENDPOINTS + 1 },
      (_, i) => `10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`,
    );
    const sticky = { affinitySeconds: 60 };
    expect(limitExceededBy(render(sticky, many))).toBe(
      "a Service with session affinity can have 16380 endpoints, and this one has 16381",
    );
    expect(limitExceededBy(render(sticky, many.slice(1)))).toBeUndefined();
    expect(limitExceededBy(render({}, many))).toBeUndefined();
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

  describe("with source ranges", () => {
    const guarded: ServiceOptions = {
      externalIPs: ["203.0.113.1"],
      loadBalancerIPs: ["203.0.113.5"],
      sourceRanges: ["10.0.0.0/8"],
    };

    test("are guarded where the load balancer has the address", () => {
      const guards = render(guarded, [elsewhere]).frontends.map(({ guard }) => guard?.prefixes);
      expect(guards).toEqual([undefined, undefined, ["10.0.0.0/8"]]);
    });

    test("lead past the check without endpoints, too: who may not come is dropped, not refused", () => {
      const [way, refusal, check] = frontend("203.0.113.5 . tcp . 80", guarded, []);
      expect([way, refusal]).toEqual(["external-cluster", "no-endpoints"]);
      expect(check).toBe(listIdentity(["10.0.0.0/8"]));
    });
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
