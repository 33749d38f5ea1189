import { resultOf } from "../../src/base/pieces.ts";
import { type Endpoint, SlicesByPort } from "../../src/model/endpoint.ts";
import { cidrContains } from "../../src/model/ip.ts";
import { type ServicePort, servicePortsOf } from "../../src/model/service-port.ts";
import type { AnyTable } from "../../src/nft/ast/any-table.ts";
import { anyTables } from "../../src/nft/canonical/any-tables.ts";
import type { FamilyContext } from "../../src/ruleset/node-context.ts";
import type { Objects } from "./build.ts";
import { listingOf } from "./listing.ts";

type Json = Readonly<Record<string, unknown>>;

/** The endpoints that a service port uses on a node. */
interface Choice {
  readonly cluster: readonly Endpoint[];
  readonly local: readonly Endpoint[];
  readonly hasAny: boolean;
}

/**
 * Returns the table that kube-proxy 1.36 creates in nftables mode for some objects. It follows kube-proxy's
 * source, and is an oracle for our rules that shares neither their layout nor their choice of endpoints.
 * Source: https://github.com/kubernetes/kubernetes/blob/v1.36.2/pkg/proxy/nftables/proxier.go and topology.go
 */
export function kubeProxyTable(objects: Required<Objects>, context: FamilyContext): AnyTable {
  const builder = new TableBuilder(context);
  const ports = objects.services.flatMap(servicePortsOf).filter(({ family }) => family === context.family);
  for (const port of ports) {
    const slices = objects.slices.filter(({ service }) => service === port.service.name);
    builder.addServicePort(
      port,
      choose(
        port,
        resultOf(resultOf(SlicesByPort.reading(slices)).endpointsOf(port, context.place.name)),
        context,
      ),
    );
  }
  const [table] = anyTables(listingOf(builder.listing()));
  if (table === undefined) throw new Error("no table");
  return table;
}

/** CategorizeEndpoints of topology.go. */
function choose(
  { service, family, spec }: ServicePort,
  endpoints: readonly Endpoint[],
  context: FamilyContext,
): Choice {
  const { name, zone } = context.place;
  const isExternal =
    spec.nodePort !== 0 ||
    service.loadBalancerIPs[family].length > 0 ||
    service.externalIPs[family].length > 0;
  const usesCluster = !service.internalPolicyLocal || isExternal;
  const usesLocal = service.internalPolicyLocal || (service.externalPolicyLocal && isExternal);
  const ready = endpoints.filter(({ source }) => source.ready);
  const draining = endpoints.filter(({ source }) => !source.ready && source.serving && source.terminating);
  const hinted = (hints: (endpoint: Endpoint) => readonly string[], own: string): readonly Endpoint[] => {
    const isComplete = ready.every((endpoint) => hints(endpoint).length > 0);
    return isComplete ? ready.filter((endpoint) => hints(endpoint).includes(own)) : [];
  };
  const lists = [
    hinted(({ source }) => source.nodeHints, name),
    hinted(({ source }) => source.zoneHints, zone),
    ready,
    draining,
  ];
  const cluster = usesCluster ? (lists.find(({ length }) => length > 0) ?? []) : [];
  const localLists = [ready, draining].map((list) => list.filter(({ local }) => local));
  const local = usesLocal ? (localLists.find(({ length }) => length > 0) ?? []) : [];
  return { cluster, local, hasAny: cluster.length > 0 || (usesLocal && ready.length + draining.length > 0) };
}

const is = (left: Json, right: unknown, op = "=="): Json => ({ match: { op, left, right } });
const meta = (key: string): Json => ({ meta: { key } });
const PROTOCOL_AND_PORT = [meta("l4proto"), { payload: { protocol: "th", field: "dport" } }];
const NEW: Json = { match: { op: "in", left: { ct: { key: "state" } }, right: "new" } };
const jump = (target: string): Json => ({ jump: { target } });
const goto = (target: string): Json => ({ goto: { target } });
const REJECT = goto("reject-chain");

const BASE_CHAINS: readonly (readonly [string, string, string, number, readonly (readonly Json[])[]])[] = [
  ["filter-prerouting-pre-dnat", "filter", "prerouting", -110, [[NEW, jump("firewall-check")]]],
  ["filter-output-pre-dnat", "filter", "output", -110, [[NEW, jump("firewall-check")]]],
  [
    "filter-input",
    "filter",
    "input",
    0,
    [
      [NEW, jump("nodeport-endpoints-check")],
      [NEW, jump("service-endpoints-check")],
    ],
  ],
  [
    "filter-forward",
    "filter",
    "forward",
    0,
    [
      [NEW, jump("service-endpoints-check")],
      [NEW, jump("cluster-ips-check")],
    ],
  ],
  [
    "filter-output",
    "filter",
    "output",
    0,
    [
      [NEW, jump("service-endpoints-check")],
      [NEW, jump("cluster-ips-check")],
    ],
  ],
  ["nat-prerouting", "nat", "prerouting", -100, [[jump("services")]]],
  ["nat-output", "nat", "output", -100, [[jump("services")]]],
  ["nat-postrouting", "nat", "postrouting", 100, [[jump("masquerading")]]],
];

/**
 * Collects the chains and elements of one table. Of several elements with the same key it keeps the first.
 */
class TableBuilder {
  readonly #context: FamilyContext;
  readonly #chains = new Map<string, (readonly Json[])[]>();
  readonly #elements = new Map<string, Map<string, unknown>>();
  readonly #affinitySets: Json[] = [];

  constructor(context: FamilyContext) {
    this.#context = context;
  }

  addServicePort({ service, spec, family, name }: ServicePort, { cluster, local, hasAny }: Choice): void {
    const { protocol, port, nodePort } = spec;
    const [clusterChain, localChain, external] = [`service-${name}`, `local-${name}`, `external-${name}`];
    const isSticky = service.affinitySeconds > 0;
    if (cluster.length > 0) this.#balance(clusterChain, name, protocol, cluster, isSticky);
    if (local.length > 0) this.#balance(localChain, name, protocol, local, isSticky);
    for (const endpoint of new Set([...cluster, ...local])) {
      if (isSticky) this.#stickyEndpoint(name, protocol, endpoint, service.affinitySeconds);
      if (endpoint.local)
        this.#put("hairpin-connections", [endpoint.address, endpoint.address, protocol, endpoint.port]);
    }
    const hasInternal = service.internalPolicyLocal ? local.length > 0 : hasAny;
    const hasExternal = service.externalPolicyLocal ? local.length > 0 : hasAny;
    const refusal = hasAny ? { drop: null } : REJECT;
    const clusterIP = service.clusterIPs[family];
    this.#put("cluster-ips", [clusterIP]);
    if (hasInternal) {
      this.#put(
        "service-ips",
        [clusterIP, protocol, port],
        goto(service.internalPolicyLocal ? localChain : clusterChain),
      );
    } else this.#put("no-endpoint-services", [clusterIP, protocol, port], refusal);
    const balancers = service.loadBalancerIPs[family];
    for (const address of [...service.externalIPs[family], ...balancers]) {
      if (hasAny) this.#put("service-ips", [address, protocol, port], goto(external));
      if (!hasExternal) this.#put("no-endpoint-services", [address, protocol, port], refusal);
    }
    this.#guard(name, balancers, service.loadBalancerSourceRanges[family], [protocol, port]);
    if (nodePort !== 0) {
      if (hasAny) this.#put("service-nodeports", [protocol, nodePort], goto(external));
      if (!hasExternal) this.#put("no-endpoint-nodeports", [protocol, nodePort], refusal);
    }
    if (hasAny) {
      this.#chain(
        external,
        this.#externalRules(service.externalPolicyLocal, clusterChain, local.length > 0 ? localChain : ""),
      );
    }
  }

  #externalRules(isLocal: boolean, cluster: string, local: string): readonly (readonly Json[])[] {
    if (!isLocal) return [[this.#setMark()], [goto(cluster)]];
    const fromNode = is({ fib: { flags: ["saddr"], result: "type" } }, "local");
    const fromPods = this.#byPods("==");
    return [
      ...(fromPods === undefined ? [] : [[fromPods, goto(cluster)]]),
      [fromNode, this.#setMark()],
      [fromNode, goto(cluster)],
      ...(local === "" ? [] : [[goto(local)]]),
    ];
  }

  #guard(
    name: string,
    balancers: readonly string[],
    ranges: readonly string[],
    key: readonly (string | number)[],
  ): void {
    if (balancers.length === 0 || ranges.length === 0) return;
    const { nodeAddress } = this.#context;
    const allowsNode = ranges.some((range) => cidrContains(range, nodeAddress));
    const set = [...ranges.map((range) => prefix(range)), ...(allowsNode ? balancers : [])];
    this.#chain(`firewall-${name}`, [[is(this.#field("saddr"), { set }, "!="), { drop: null }]]);
    for (const address of balancers) this.#put("firewall-ips", [address, ...key], goto(`firewall-${name}`));
  }

  #balance(
    chain: string,
    name: string,
    protocol: string,
    endpoints: readonly Endpoint[],
    isSticky: boolean,
  ): void {
    const key = { numgen: { mode: "random", mod: endpoints.length, offset: 0 } };
    if (!isSticky) {
      const set = endpoints.map(({ address, port }, index) => [index, { concat: [address, port] }]);
      const addr = { map: { key, data: { set } } };
      this.#chain(chain, [[is(meta("l4proto"), protocol), { dnat: { family: this.#context.family, addr } }]]);
      return;
    }
    const set = endpoints.map(({ target }, index) => [index, goto(`endpoint-${name}-${target}`)]);
    const known = endpoints.map(({ target }) => [
      is(this.#field("saddr"), `@affinity-${name}-${target}`),
      goto(`endpoint-${name}-${target}`),
    ]);
    this.#chain(chain, [...known, [{ vmap: { key, data: { set } } }]]);
  }

  #stickyEndpoint(
    name: string,
    protocol: string,
    { target, address, port }: Endpoint,
    timeout: number,
  ): void {
    const set = `affinity-${name}-${target}`;
    const type = this.#context.family === "ip" ? "ipv4_addr" : "ipv6_addr";
    this.#affinitySets.push({
      ...this.#at(),
      name: set,
      type,
      flags: ["timeout", "dynamic"],
      timeout,
      size: 65535,
    });
    this.#chain(`endpoint-${name}-${target}`, [
      [{ set: { op: "update", elem: this.#field("saddr"), set: `@${set}` } }],
      [is(meta("l4proto"), protocol), { dnat: { addr: address, port } }],
    ]);
  }

  /** Returns nft's listing of the table. */
  listing(): readonly Json[] {
    const { family } = this.#context;
    const maps = [
      "service-ips",
      "no-endpoint-services",
      "firewall-ips",
      "service-nodeports",
      "no-endpoint-nodeports",
    ];
    const sets = ["cluster-ips", "nodeport-ips", "hairpin-connections"];
    if (this.#context.nodePorts.kind === "addresses") {
      for (const address of this.#context.nodePorts.addresses) this.#put("nodeport-ips", [address]);
    }
    const type = family === "ip" ? "ipv4_addr" : "ipv6_addr";
    const types: Readonly<Record<string, readonly string[]>> = {
      "cluster-ips": [type],
      "nodeport-ips": [type],
      "hairpin-connections": [type, type, "inet_proto", "inet_service"],
      "service-nodeports": ["inet_proto", "inet_service"],
      "no-endpoint-nodeports": ["inet_proto", "inet_service"],
    };
    const chains = [...this.#staticChains(), ...this.#chains];
    const declared = (name: string) => ({
      ...this.#at(),
      name,
      type: types[name] ?? [type, "inet_proto", "inet_service"],
    });
    return [
      { table: { family, name: "kube-proxy" } },
      ...BASE_CHAINS.map(([name, kind, hook, prio]) => ({
        chain: { ...this.#at(), name, type: kind, hook, prio, policy: "accept" },
      })),
      ...chains.map(([name]) => ({ chain: { ...this.#at(), name } })),
      ...maps.map((name) => ({ map: { ...declared(name), map: "verdict", elem: this.#pairs(name) } })),
      ...sets.map((name) => ({ set: { ...declared(name), elem: this.#pairs(name).map(([key]) => key) } })),
      ...this.#affinitySets.map((set) => ({ set })),
      ...BASE_CHAINS.flatMap(([chain, , , , rules]) =>
        rules.map((expr) => ({ rule: { ...this.#at(), chain, expr } })),
      ),
      ...chains.flatMap(([chain, rules]) => rules.map((expr) => ({ rule: { ...this.#at(), chain, expr } }))),
    ];
  }

  #staticChains(): [string, readonly (readonly Json[])[]][] {
    const { masqueradeAll, masqueradeMark, serviceCIDRs } = this.#context;
    const daddr = this.#field("daddr");
    const service = { concat: [daddr, ...PROTOCOL_AND_PORT] };
    const vmap = (key: Json, map: string): Json => ({ vmap: { key, data: `@${map}` } });
    const nodePort = (map: string) => [...this.#toNodePorts(), vmap({ concat: PROTOCOL_AND_PORT }, map)];
    const toClusterIPs = is(daddr, "@cluster-ips");
    const notPods = masqueradeAll ? [] : this.#byPods("!=");
    const hairpin = { concat: [this.#field("saddr"), daddr, ...PROTOCOL_AND_PORT] };
    const marked = is({ "&": [meta("mark"), masqueradeMark] }, 0, "!=");
    const unmark = { mangle: { key: meta("mark"), value: { "^": [meta("mark"), masqueradeMark] } } };
    const masquerade = { masquerade: { flags: "fully-random" } };
    return [
      ["nodeport-endpoints-check", [nodePort("no-endpoint-nodeports")]],
      ["service-endpoints-check", [[vmap(service, "no-endpoint-services")]]],
      ["firewall-check", [[vmap(service, "firewall-ips")]]],
      [
        "services",
        [
          ...(notPods === undefined ? [] : [[toClusterIPs, ...[notPods].flat(), this.#setMark()]]),
          [vmap(service, "service-ips")],
          nodePort("service-nodeports"),
        ],
      ],
      [
        "masquerading",
        [
          [marked, unmark, masquerade],
          [is({ ct: { key: "status" } }, "dnat", "in"), is(hairpin, "@hairpin-connections"), masquerade],
        ],
      ],
      [
        "cluster-ips-check",
        [
          [toClusterIPs, { reject: null }],
          ...(serviceCIDRs.length === 0
            ? []
            : [[is(daddr, { set: serviceCIDRs.map(prefix) }), { drop: null }]]),
        ],
      ],
      ["reject-chain", [[{ reject: null }]]],
    ];
  }

  #toNodePorts(): readonly Json[] {
    const { nodePorts, family } = this.#context;
    if (nodePorts.kind === "addresses") return [is(this.#field("daddr"), "@nodeport-ips")];
    const loopback = family === "ip" ? prefix("127.0.0.0/8") : "::1";
    return [
      is({ fib: { flags: ["daddr"], result: "type" } }, "local"),
      is(this.#field("daddr"), loopback, "!="),
    ];
  }

  #byPods(op: "==" | "!="): Json | undefined {
    const { localTraffic } = this.#context;
    if (localTraffic.kind === "unknown") return undefined;
    if (localTraffic.kind === "interface") return is(meta("iifname"), localTraffic.pattern, op);
    return is(this.#field("saddr"), { set: localTraffic.cidrs.map(prefix) }, op);
  }

  #setMark(): Json {
    return { mangle: { key: meta("mark"), value: { "|": [meta("mark"), this.#context.masqueradeMark] } } };
  }

  #field(field: "saddr" | "daddr"): Json {
    return { payload: { protocol: this.#context.family, field } };
  }

  #at(): Json {
    return { family: this.#context.family, table: "kube-proxy" };
  }

  #chain(name: string, rules: readonly (readonly Json[])[]): void {
    this.#chains.set(name, [...rules]);
  }

  #put(set: string, key: readonly (string | number)[], value: unknown = ""): void {
    const elements = this.#elements.get(set) ?? new Map<string, unknown>();
    this.#elements.set(set, elements);
    const text = JSON.stringify(key);
    if (!elements.has(text)) elements.set(text, value);
  }

  #pairs(set: string): [unknown, unknown][] {
    return [...(this.#elements.get(set) ?? [])].map(([text, value]) => {
      const key = JSON.parse(text) as readonly unknown[];
      return [key.length === 1 ? key[0] : { concat: key }, value];
    });
  }
}

function prefix(cidr: string): Json {
  const slash = cidr.indexOf("/");
  return { prefix: { addr: cidr.slice(0, slash), len: Number(cidr.slice(slash + 1)) } };
}
