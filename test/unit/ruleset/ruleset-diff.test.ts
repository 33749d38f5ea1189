import { describe, expect, test } from "vitest";
import { diffText } from "../../../src/cli/commands/diff-text.ts";
import { ALL_PARTS } from "../../../src/features/frontends.ts";
import { compareRulesets, hasNoDifference, type OwnedRuleset } from "../../../src/ruleset/ruleset-diff.ts";
import {
  localEndpoint,
  type Objects,
  port,
  renderAll,
  service,
  slice,
  testNodeContext,
} from "../../support/build.ts";

function side(objects: Objects, options: Parameters<typeof testNodeContext>[0] = {}): Required<OwnedRuleset> {
  const { state } = renderAll(objects, testNodeContext(options));
  return { ruleset: state.ruleset, state };
}

const WEB = service({ ports: [port(80, { nodePort: 30080 })] });
const OTHER = service({ name: "other", clusterIPs: ["10.96.0.11"], affinitySeconds: 60 });
const TWO = slice({ endpoints: ["10.244.1.1", "10.244.1.2"] });

/** What is said of the way from one set of objects to another, without the summary. */
function said(before: Objects, after: Objects): string[] {
  return diffText(compareRulesets(side(before), side(after), ALL_PARTS), {
    before: "before",
    after: "after",
  })
    .split("\n")
    .slice(2, -2);
}

const rows: readonly {
  readonly name: string;
  readonly before: Objects;
  readonly after: Objects;
  readonly lines: readonly string[];
}[] = [
  {
    name: "a new Service",
    before: {},
    after: { services: [WEB], slices: [TWO] },
    lines: [
      "default/web",
      "  + 10.96.0.10:80/tcp: 2 endpoints",
      "      + 10.244.1.1:8080, 10.244.1.2:8080",
      "  + NodePort 30080/tcp (IPv4): 2 endpoints, masqueraded",
      "      + 10.244.1.1:8080, 10.244.1.2:8080",
      "",
      "of this node",
      "  + chain ip balance-1",
      "  + chain ip balance-2",
      "",
    ],
  },
  {
    name: "other limits of clients",
    before: { services: [service({ clientLimits: { connections: 1 } })], slices: [TWO] },
    after: { services: [service({ clientLimits: { connections: 2 } })], slices: [TWO] },
    lines: [
      "default/web",
      "  ~ ip client-limits 2147483652: jump client-limit-1 -> jump client-limit-2",
      "  + chain ip client-limit-2: its client limits",
      "  - chain ip client-limit-1: its client limits",
      "",
    ],
  },
  {
    name: "a Service that goes",
    before: { services: [OTHER] },
    after: {},
    lines: ["default/other", "  - 10.96.0.11:80/tcp: refused", ""],
  },
  {
    name: "an endpoint for another",
    before: { services: [WEB], slices: [TWO] },
    after: { services: [WEB], slices: [slice({ endpoints: ["10.244.1.2", "10.244.1.3"] })] },
    lines: [
      "default/web",
      "  ~ 10.96.0.10:80/tcp",
      "      + 10.244.1.3:8080",
      "      - 10.244.1.1:8080",
      "  ~ NodePort 30080/tcp (IPv4)",
      "      + 10.244.1.3:8080",
      "      - 10.244.1.1:8080",
      "",
    ],
  },
  {
    name: "the last endpoint gone",
    before: { services: [OTHER], slices: [slice({ service: "other", endpoints: ["10.244.1.1"] })] },
    after: { services: [OTHER] },
    lines: [
      "default/other",
      "  ~ 10.96.0.11:80/tcp: 1 endpoint, sticky for 60 s -> refused",
      "      - 10.244.1.1:8080",
      "",
      "of this node",
      "  - chain ip choose-balance-1",
      "  - chain ip remember-60",
      "  - chain ip affinity",
      "",
    ],
  },
  {
    name: "another policy",
    before: { services: [WEB], slices: [slice({ endpoints: [localEndpoint("10.244.1.1"), "10.244.1.2"] })] },
    after: {
      services: [service({ ports: [port(80, { nodePort: 30080 })], external: "Local" })],
      slices: [slice({ endpoints: [localEndpoint("10.244.1.1"), "10.244.1.2"] })],
    },
    lines: [
      "default/web",
      "  ~ NodePort 30080/tcp (IPv4): 2 endpoints -> 1 endpoint, masqueraded -> source kept, 2 endpoints for pods and this node",
      "",
    ],
  },
  {
    name: "a frontend that an older Service takes",
    before: { services: [service({ externalIPs: ["192.0.2.9"], createdAt: 2 })] },
    after: {
      services: [
        service({ externalIPs: ["192.0.2.9"], createdAt: 2 }),
        service({ name: "other", clusterIPs: ["10.96.0.11"], externalIPs: ["192.0.2.9"], createdAt: 1 }),
      ],
    },
    lines: ["default/other", "  + 10.96.0.11:80/tcp: refused", ""],
  },
];

test.each(rows)("diffText describes $name by its effect", ({ before, after, lines }) => {
  expect(said(before, after)).toEqual(lines);
});

describe("compareRulesets", () => {
  test("finds no difference between the same objects", () => {
    const objects = { services: [WEB, OTHER], slices: [TWO] };
    expect(hasNoDifference(compareRulesets(side(objects), side(objects), ALL_PARTS))).toBe(true);
  });

  test("names other source ranges with their Service", () => {
    const fenced = (range: string) => ({
      services: [service({ loadBalancerIPs: ["203.0.113.7"], sourceRanges: [range] })],
      slices: [TWO],
    });
    const diff = compareRulesets(side(fenced("198.51.101.0/24")), side(fenced("198.51.100.0/24")), ALL_PARTS);
    const changes = diff.services.get("default/web")?.map(({ set, key, before }) => {
      return [set, key, before === undefined ? "added" : "removed"];
    });
    expect(changes).toEqual([
      ["source-ranges", "198.51.101.0 . 2164260865 . 24", "removed"],
      ["source-ranges", "198.51.100.0 . 2164260865 . 24", "added"],
    ]);
    expect([diff.parts.length, diff.services.size]).toEqual([0, 1]);
  });

  test("attributes to no Service what none is known to have", () => {
    const { ruleset } = side({ services: [WEB], slices: [TWO] });
    const { services, others } = compareRulesets({ ruleset }, side({}), ALL_PARTS);
    expect(services.size).toBe(0);
    expect(others).toContainEqual({ family: "ip", set: "cluster-ips", key: "10.96.0.10", before: "" });
  });

  test("lists the node's own addresses apart from Services", () => {
    const elsewhere = side({ services: [WEB] }, { nodePorts: { kind: "addresses", addresses: [] } });
    const { services, others } = compareRulesets(side({ services: [WEB] }), elsewhere, ALL_PARTS);
    expect(services.size).toBe(0);
    expect(others.map(({ set, key }) => `${set} ${key}`)).toEqual([
      "nodeport-ips 192.0.2.2",
      "nodeport-ips fd00:c0::2",
    ]);
  });
});
