import { describe, expect, test } from "vitest";
import { chooseEndpoints, type Place, whyExcluded } from "../../../src/model/endpoint-choice.ts";
import type { SliceEndpoint } from "../../../src/model/endpoint-slice.ts";
import {
  DRAINING,
  endpoint,
  endpointsOf,
  GONE,
  HERE,
  localEndpoint,
  port,
  type ServiceOptions,
  STARTING,
  servicePort,
  slice,
} from "../../support/build.ts";

const cluster: ServiceOptions = {};
const internalLocal: ServiceOptions = { internal: "Local" };
const externalLocal: ServiceOptions = { external: "Local", ports: [port(80, { nodePort: 30080 })] };

function choose(options: ServiceOptions, endpoints: readonly SliceEndpoint[], place: Place = HERE) {
  const given = servicePort(options);
  const known = endpointsOf([slice({ endpoints, family: "ip" })], given, place.name);
  const choice = chooseEndpoints(given, known, place);
  const last = (address: string) => address.slice(address.lastIndexOf(".") + 1);
  return {
    choice,
    endpoints: known,
    cluster: choice.cluster.map(({ address }) => last(address)).join(" "),
    local: choice.local.map(({ address }) => last(address)).join(" "),
  };
}

interface Row {
  readonly shows: string;
  readonly service: ServiceOptions;
  readonly endpoints: readonly SliceEndpoint[];
  readonly place?: Place;
  readonly cluster: string;
  readonly local: string;
  readonly hasAny: boolean;
}

const READINESS: readonly Row[] = [
  {
    shows: "nothing where there are no endpoints",
    service: externalLocal,
    endpoints: [],
    cluster: "",
    local: "",
    hasAny: false,
  },
  {
    shows: "ready ones and no others",
    service: cluster,
    endpoints: [
      endpoint("10.0.0.1"),
      endpoint("10.0.0.2", STARTING),
      endpoint("10.0.0.3", DRAINING),
      endpoint("10.0.0.4", GONE),
    ],
    cluster: "1",
    local: "",
    hasAny: true,
  },
  {
    shows: "draining ones when none is ready, without those that serve no more or not yet",
    service: cluster,
    endpoints: [
      endpoint("10.0.0.2", STARTING),
      endpoint("10.0.0.3", DRAINING),
      endpoint("10.0.0.4", GONE),
      endpoint("10.0.0.5", DRAINING),
    ],
    cluster: "3 5",
    local: "",
    hasAny: true,
  },
  {
    shows: "none when none serves",
    service: externalLocal,
    endpoints: [localEndpoint("10.0.0.2", STARTING), localEndpoint("10.0.0.4", GONE)],
    cluster: "",
    local: "",
    hasAny: false,
  },
  {
    shows: "a draining local one for Local while a ready one elsewhere serves Cluster",
    service: externalLocal,
    endpoints: [endpoint("10.0.0.1"), localEndpoint("10.0.0.3", DRAINING)],
    cluster: "1",
    local: "3",
    hasAny: true,
  },
  {
    shows: "ready local ones only, where there is one, for Local",
    service: externalLocal,
    endpoints: [localEndpoint("10.0.0.1"), localEndpoint("10.0.0.3", DRAINING), endpoint("10.0.0.5")],
    cluster: "1 5",
    local: "1",
    hasAny: true,
  },
  {
    shows: "no local one though some exist elsewhere",
    service: externalLocal,
    endpoints: [endpoint("10.0.0.1"), localEndpoint("10.0.0.2", STARTING)],
    cluster: "1",
    local: "",
    hasAny: true,
  },
  {
    shows: "no draining ones elsewhere for Local, but knows that there are some",
    service: internalLocal,
    endpoints: [endpoint("10.0.0.3", DRAINING)],
    cluster: "",
    local: "",
    hasAny: true,
  },
  {
    shows: "both lists where the outside makes Cluster used beside an internal Local policy",
    service: { internal: "Local", ports: [port(80, { nodePort: 30080 })] },
    endpoints: [localEndpoint("10.0.0.1"), endpoint("10.0.0.2")],
    cluster: "1 2",
    local: "1",
    hasAny: true,
  },
  {
    shows: "no local list for an external Local policy that nothing can reach",
    service: { external: "Local" },
    endpoints: [localEndpoint("10.0.0.1")],
    cluster: "1",
    local: "",
    hasAny: true,
  },
];

const zone = (address: string, ...zones: string[]) => endpoint(address, { zoneHints: zones });
const nodes = (address: string, nodeHints: string[], zoneHints: string[] = []) =>
  endpoint(address, { nodeHints, zoneHints });

const HINTS: readonly Row[] = [
  {
    shows: "those that hints give to our zone",
    service: cluster,
    endpoints: [zone("10.0.0.1", "zone-a"), zone("10.0.0.2", "zone-b"), zone("10.0.0.3", "zone-b", "zone-a")],
    cluster: "1 3",
    local: "",
    hasAny: true,
  },
  {
    shows: "all when one ready endpoint has no zone hint",
    service: cluster,
    endpoints: [zone("10.0.0.1", "zone-a"), zone("10.0.0.2", "zone-b"), endpoint("10.0.0.3")],
    cluster: "1 2 3",
    local: "",
    hasAny: true,
  },
  {
    shows: "our zone's though an endpoint that is not ready has no hint",
    service: cluster,
    endpoints: [zone("10.0.0.1", "zone-a"), zone("10.0.0.2", "zone-b"), endpoint("10.0.0.3", STARTING)],
    cluster: "1",
    local: "",
    hasAny: true,
  },
  {
    shows: "all when no hint names our zone",
    service: cluster,
    endpoints: [zone("10.0.0.1", "zone-b"), zone("10.0.0.2", "zone-c")],
    cluster: "1 2",
    local: "",
    hasAny: true,
  },
  {
    shows: "all when only an endpoint that is not ready names our zone",
    service: cluster,
    endpoints: [zone("10.0.0.1", "zone-b"), endpoint("10.0.0.2", { ...STARTING, zoneHints: ["zone-a"] })],
    cluster: "1",
    local: "",
    hasAny: true,
  },
  {
    shows: "all on a node without a zone",
    service: cluster,
    endpoints: [zone("10.0.0.1", "zone-a"), zone("10.0.0.2", "zone-b")],
    place: { name: HERE.name, zone: "" },
    cluster: "1 2",
    local: "",
    hasAny: true,
  },
  {
    shows: "our node's, before our zone's",
    service: cluster,
    endpoints: [nodes("10.0.0.1", ["node-1"], ["zone-a"]), nodes("10.0.0.2", ["node-2"], ["zone-a"])],
    cluster: "1",
    local: "",
    hasAny: true,
  },
  {
    shows: "our zone's when no node hint names us",
    service: cluster,
    endpoints: [nodes("10.0.0.1", ["node-2"], ["zone-a"]), nodes("10.0.0.2", ["node-3"], ["zone-b"])],
    cluster: "1",
    local: "",
    hasAny: true,
  },
  {
    shows: "our zone's when a node hint is missing",
    service: cluster,
    endpoints: [
      nodes("10.0.0.1", ["node-1"], ["zone-a"]),
      nodes("10.0.0.2", [], ["zone-a"]),
      zone("10.0.0.3", "zone-b"),
    ],
    cluster: "1 2",
    local: "",
    hasAny: true,
  },
  {
    shows: "local ones by Local policy whatever the hints",
    service: externalLocal,
    endpoints: [localEndpoint("10.0.0.1", { zoneHints: ["zone-b"] }), zone("10.0.0.2", "zone-a")],
    cluster: "2",
    local: "1",
    hasAny: true,
  },
  {
    shows: "draining ones of all zones: hints are for ready ones",
    service: cluster,
    endpoints: [
      endpoint("10.0.0.1", { ...DRAINING, zoneHints: ["zone-a"] }),
      endpoint("10.0.0.2", { ...DRAINING, zoneHints: ["zone-b"] }),
    ],
    cluster: "1 2",
    local: "",
    hasAny: true,
  },
];

describe("chooseEndpoints takes", () => {
  test.each([...READINESS, ...HINTS].map((row) => [row.shows, row] as const))("%s", (_, row) => {
    const { choice, cluster, local } = choose(row.service, row.endpoints, row.place);
    expect([cluster, local, choice.hasAny]).toEqual([row.cluster, row.local, row.hasAny]);
  });
});

describe("ejected endpoints", () => {
  const FOUR = [1, 2, 3, 4].map((last) => localEndpoint(`10.0.0.${last}`));
  const chosen = (
    options: ServiceOptions,
    endpoints: readonly SliceEndpoint[],
    ejected: string,
    maxEjected = 50,
  ) => {
    const given = servicePort(options);
    const known = endpointsOf([slice({ endpoints, family: "ip" })], given, HERE.name);
    const targets = new Set(ejected.split(" ").map((last) => `10.0.0.${last} . 8080`));
    const choice = chooseEndpoints(given, known, HERE, { targets, maxEjected });
    const last = ({ address }: { readonly address: string }) => address.slice(address.lastIndexOf(".") + 1);
    return {
      choice,
      known,
      cluster: choice.cluster.map(last).join(" "),
      local: choice.local.map(last).join(" "),
    };
  };

  test.each([
    ["one of four", FOUR, "2", 50, "1 3 4"],
    ["two of four", FOUR, "3 2", 50, "1 4"],
    ["the first two of three where half may go", FOUR, "4 2 1", 50, "1 3"],
    ["all but one where all may go", FOUR, "4 2 1 3", 100, "3"],
    ["none where a quarter of three may go", FOUR.slice(0, 3), "1", 25, "1 2 3"],
    ["not the last", FOUR.slice(0, 1), "1", 100, "1"],
    ["none that are in no list", FOUR, "9", 50, "1 2 3 4"],
  ])("leave lists: %s", (_, endpoints, ejected, most, expected) => {
    expect(chosen(cluster, endpoints, ejected, most).cluster).toBe(expected);
    expect(chosen(externalLocal, endpoints, ejected, most)).toMatchObject({
      cluster: expected,
      local: expected,
    });
  });

  test("do not make drained or terminating ones be used, and whyExcluded names them", () => {
    const endpoints = [...FOUR.slice(0, 2), endpoint("10.0.0.3", DRAINING)];
    const { choice, known, cluster: used } = chosen(cluster, endpoints, "1");
    expect([used, choice.clusterFallback]).toEqual(["2", "ready"]);
    expect(known.map((each) => whyExcluded(each, choice, "cluster", HERE))).toEqual([
      "ejected",
      undefined,
      "terminating",
    ]);
  });
});

describe("whyExcluded says", () => {
  const reasons = (
    options: ServiceOptions,
    policy: "cluster" | "local",
    endpoints: readonly SliceEndpoint[],
  ) => {
    const chosen = choose(options, endpoints);
    return chosen.endpoints.map((each) => whyExcluded(each, chosen.choice, policy, HERE));
  };

  test("that endpoints are not ready or terminate, where none serves", () => {
    const endpoints = [endpoint("10.0.0.2", STARTING), endpoint("10.0.0.4", GONE)];
    expect(reasons(cluster, "cluster", endpoints)).toEqual(["not-ready", "terminating"]);
  });

  test("that an endpoint is not ready or terminates, while another is ready", () => {
    const endpoints = [
      endpoint("10.0.0.1"),
      endpoint("10.0.0.2", STARTING),
      endpoint("10.0.0.3", DRAINING),
      endpoint("10.0.0.4", GONE),
    ];
    expect(reasons(cluster, "cluster", endpoints)).toEqual([
      undefined,
      "not-ready",
      "terminating",
      "terminating",
    ]);
  });

  test("that an endpoint does not serve, while others drain", () => {
    const endpoints = [
      endpoint("10.0.0.1", DRAINING),
      endpoint("10.0.0.2", GONE),
      endpoint("10.0.0.3", STARTING),
    ];
    expect(reasons(cluster, "cluster", endpoints)).toEqual([undefined, "not-serving", "not-serving"]);
  });

  test("that hints give an endpoint to another zone or node", () => {
    expect(reasons(cluster, "cluster", [zone("10.0.0.1", "zone-a"), zone("10.0.0.2", "zone-b")])).toEqual([
      undefined,
      "other-zone",
    ]);
    expect(
      reasons(cluster, "cluster", [nodes("10.0.0.1", ["node-1"]), nodes("10.0.0.2", ["node-2"])]),
    ).toEqual([undefined, "other-node"]);
  });

  test("that an endpoint is elsewhere, before all else", () => {
    const endpoints = [
      localEndpoint("10.0.0.1"),
      endpoint("10.0.0.2", STARTING),
      localEndpoint("10.0.0.3", DRAINING),
    ];
    expect(reasons(externalLocal, "local", endpoints)).toEqual([undefined, "not-local", "terminating"]);
  });

  test("nothing about a draining local endpoint that Local policy falls back to, though Cluster has ready ones", () => {
    const endpoints = [endpoint("10.0.0.1"), localEndpoint("10.0.0.3", DRAINING)];
    expect(reasons(externalLocal, "local", endpoints)).toEqual(["not-local", undefined]);
    expect(reasons(externalLocal, "cluster", endpoints)).toEqual([undefined, "terminating"]);
  });
});

describe("drained endpoints", () => {
  /** Endpoints by share: those of share 0 in a slice of their own. */
  function chooseShared(options: ServiceOptions, shares: readonly [number, readonly SliceEndpoint[]][]) {
    const given = servicePort(options);
    const slices = shares.map(([share, endpoints], i) =>
      slice({ name: `web-${i} ${share}`, endpoints, family: "ip" }),
    );
    const known = endpointsOf(slices, given, HERE.name, ({ name }) => Number(name.split(" ")[1]));
    const choice = chooseEndpoints(given, known, HERE);
    const text = (list: readonly { readonly address: string }[]) =>
      list.map(({ address }) => address.slice(9)).join(" ");
    const reasons = known.map((one) => whyExcluded(one, choice, "cluster", HERE));
    return { cluster: text(choice.cluster), local: text(choice.local), reasons };
  }

  test.each<[string, ServiceOptions, [number, SliceEndpoint[]][], string, string]>([
    [
      "get nothing while others are ready",
      cluster,
      [
        [0, [endpoint("10.244.1.1")]],
        [1, [endpoint("10.244.1.2")]],
      ],
      "2",
      "",
    ],
    [
      "serve where all are drained",
      cluster,
      [[0, [endpoint("10.244.1.1"), endpoint("10.244.1.2")]]],
      "1 2",
      "",
    ],
    [
      "serve before those that terminate",
      cluster,
      [
        [0, [endpoint("10.244.1.1")]],
        [1, [endpoint("10.244.1.2", DRAINING)]],
      ],
      "1",
      "",
    ],
    [
      "serve as the last of this node",
      externalLocal,
      [
        [0, [localEndpoint("10.244.1.1")]],
        [1, [endpoint("10.244.1.2")]],
      ],
      "2",
      "1",
    ],
    [
      "leave their zone to other zones",
      cluster,
      [
        [0, [endpoint("10.244.1.1", { zoneHints: [HERE.zone] })]],
        [1, [endpoint("10.244.1.2", { zoneHints: ["zone-b"] })]],
      ],
      "2",
      "",
    ],
  ])("%s", (_, options, shares, clusterList, localList) => {
    const { cluster: inCluster, local } = chooseShared(options, shares);
    expect([inCluster, local]).toEqual([clusterList, localList]);
  });

  test("are excluded as drained", () => {
    const { reasons } = chooseShared(cluster, [
      [0, [endpoint("10.244.1.1")]],
      [1, [endpoint("10.244.1.2")]],
    ]);
    expect(reasons).toEqual(["drained", undefined]);
  });

  test("of two slices count by the larger share", () => {
    const both = [endpoint("10.244.1.1")];
    expect(
      chooseShared(cluster, [
        [0, both],
        [1, both],
        [1, [endpoint("10.244.1.2")]],
      ]).cluster,
    ).toBe("1 2");
  });
});
