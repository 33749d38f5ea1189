import { describe, expect, test } from "vitest";
import { type Detail, explain } from "../../../../src/inspect/explain/explain.ts";
import { type ExplainInput, hostOf } from "../../../../src/inspect/explain/explain-input.ts";
import type { Note } from "../../../../src/inspect/explain/explanation.ts";
import { connectionOf } from "../../../../src/inspect/explain/packet.ts";
import type { Protocol, ServiceName } from "../../../../src/model/ids.ts";
import type { Ruleset } from "../../../../src/nft/ast/ruleset.ts";
import { Renderer } from "../../../../src/ruleset/renderer.ts";
import type { RulesetState } from "../../../../src/ruleset/ruleset-state.ts";
import {
  type ContextOptions,
  cacheOf,
  endpoint,
  familyContext,
  type ServiceOptions,
  service,
  slice,
  testNodeContext,
} from "../../../support/build.ts";

/** The input of `explain`: a Service, its endpoint 172.31.0.5, and what `more` has. */
function inputOf(
  context: ContextOptions,
  more: (state: RulesetState) => Partial<ExplainInput> = () => ({}),
  options: ServiceOptions = {},
): ExplainInput {
  const cache = cacheOf({
    services: [service(options)],
    slices: [slice({ endpoints: [endpoint("172.31.0.5")] })],
  });
  const nodeContext = testNodeContext(context);
  const renderer = new Renderer(cache, nodeContext);
  renderer.update(cache.takeDirty());
  const { state } = renderer;
  const host = hostOf(nodeContext, []);
  return {
    cache,
    nodeContext,
    state,
    ignored: [],
    objectsKnown: true,
    loadBalancers: [],
    host,
    ...more(state),
  };
}

/** The input of `explain --live` where the kernel resets clients of these endpoints. */
function input(targets: readonly string[], daemon?: ExplainInput["daemon"]): ExplainInput {
  return inputOf({ resetVanished: true }, (state) => {
    state.families.ip?.setKeys("connection-life", new Set(targets));
    const ruleset: Ruleset = Object.fromEntries(
      Object.values(state.families).map(({ table }) => [table.family, table]),
    );
    const otherTables = { tables: [], older: { ip: 0, ip6: 0 } };
    const live = { ruleset, otherTables, interfaceTo: () => undefined, affinityEntries: [] };
    return { live, ...(daemon === undefined ? {} : { daemon }) };
  });
}

function resets(
  of: ExplainInput,
  to = "10.96.0.10",
  protocol: Protocol = "tcp",
  detail: Detail = "whole",
): readonly string[] {
  const { notes } = explain(connectionOf({ to, port: 80, protocol }, of), of, detail);
  return notes.flatMap(({ topic, message }) => (topic === "reset" ? [message] : []));
}

describe("the notes on vanished endpoints", () => {
  test("without a daemon name the kernel's endpoints at a port of the Service's endpoints", () => {
    const [message, ...more] = resets(input(["172.31.0.9 . 8080", "172.31.0.9 . 9999"]));
    expect(message).toContain(
      "are reset: 172.31.0.9:8080; only the daemon knows the Services of these endpoints",
    );
    expect(more).toEqual([]);
  });

  test("come from the daemon if it answers", () => {
    const services = input([]).cache.serviceNames();
    const left = { family: "ip", target: "172.31.0.9 . 8080", services, leftAt: 0 } as const;
    const known = { features: { "connection-life": { held: [left], draining: [] } }, ejected: [], now: 5000 };
    expect(resets(input(["172.31.0.9 . 8080"], known))).toEqual([
      expect.stringMatching(/^the endpoint 172\.31\.0\.9:8080 left \S+ port .* 5s ago/),
    ]);
  });

  test("name the endpoints that terminate, and say when or whether their connections are reset", () => {
    const [name] = input([]).cache.serviceNames() as [ServiceName];
    const draining = [
      ["172.31.0.7", 90_000],
      ["172.31.0.8", 50_000],
      ["172.31.0.9", 40_000],
    ] as const;
    const shown = {
      held: [
        { family: "ip", target: "172.31.0.9 . 8080", services: [name], leftAt: 40_000, isDrained: true },
      ],
      draining: draining.map(([address, dueAt]) => {
        return { family: "ip", service: name, address, since: 20_000, dueAt } as const;
      }),
    } as const;
    const known = { features: { "connection-life": shown }, ejected: [], now: 60_000 };
    const found = resets(input([], known));
    expect(resets(input([], known), "10.96.0.10", "tcp", "brief"), "of a Service").toEqual(found);
    expect(found).toEqual([
      expect.stringMatching(/^the endpoint 172\.31\.0\.9:8080 exceeded the drain timeout of \S+ .* 20s ago/),
      "the endpoint 172.31.0.7 has been terminating for 40s; its drain timeout is over in 30s",
      expect.stringMatching(/^the endpoint 172\.31\.0\.8 has been .* was over 10s ago; connections .* only/),
    ]);
  });

  test("are absent for addresses of no Service, for UDP, and if no endpoint left", () => {
    const of = input(["172.31.0.9 . 8080"]);
    expect([...resets(of, "198.51.100.7"), ...resets(of, "10.96.0.10", "udp"), ...resets(input([]))]).toEqual(
      [],
    );
  });
});

describe("the note on timeouts", () => {
  const explained = (context: ContextOptions) => {
    const of = inputOf(context, () => ({}), { connectionTimeouts: { "tcp-established": 7200, udp: 5 } });
    const { notes, steps } = explain(connectionOf({ to: "10.96.0.10", port: 80, protocol: "tcp" }, of), of);
    const messages = notes.flatMap(({ topic, message }) => (topic === "timeouts" ? [message] : []));
    return { messages, steps: steps.map(({ message }) => message) };
  };
  const TIMED =
    "conntrack forgets the connection after tcp-established=2h without a packet (annotation nft-proxy.io/connection-timeouts)";

  test("gives those of the protocol, and a step of the way assigns them", () => {
    const { messages, steps } = explained({});
    expect(messages).toEqual([TIMED]);
    expect(steps).toContain("the connection gets the timeouts of its Service port");
  });

  test("says what a flow table changes", () => {
    const flowtable = () => ({ name: "f", hook: "ingress", prio: 0 }) as const;
    const part = { name: "f", isAlways: () => true, flowtable };
    const features = [...familyContext("ip").features, part];
    expect(explained({ features }).messages).toEqual([
      `${TIMED}; when it leaves the fast path, it has those of the node until its next packet`,
    ]);
  });

  test("says why there are none", () => {
    const { messages, steps } = explained({ lacking: ["connection-timeouts"] });
    expect(messages).toEqual(["served without its connection timeouts: this node's kernel cannot set them"]);
    expect(steps.join()).not.toContain("timeouts");
  });
});

test.each([
  [["x/l1"], "x/l1 port 80/tcp also wants"],
  [["x/l1", "x/l2"], "x/l1 port 80/tcp and x/l2 port 80/tcp also want"],
])("a note names the other Services of an external IP: %j", (names, others) => {
  const externalIPs = ["203.0.113.7"];
  const of = inputOf({}, undefined, { externalIPs });
  for (const [i, name] of names.entries())
    of.cache.putService(service({ name, createdAt: 2000, clusterIPs: [`10.96.0.2${i}`], externalIPs }));
  const renderer = new Renderer(of.cache, of.nodeContext);
  renderer.update(of.cache.serviceNames());
  const { notes } = explain(connectionOf({ to: "203.0.113.7", port: 80, protocol: "tcp" }, of), {
    ...of,
    state: renderer.state,
  });
  expect(notes).toContainEqual({
    topic: "conflict",
    message: `${others} this address and port; default/web is older and has it`,
  });
});

test("a Service port without room for session affinity is served, and a note gives the reason", () => {
  const services = ["a/old", "b/new"].map((name, i) =>
    service({ name, createdAt: i, clusterIPs: [`10.96.0.1${i}`], affinitySeconds: 600 }),
  );
  const slices = ["a/old", "b/new"].map((name) => slice({ service: name, endpoints: [`10.244.0.1`] }));
  const cache = cacheOf({ services, slices });
  const nodeContext = testNodeContext({ maxStickyPorts: 1 });
  const renderer = new Renderer(cache, nodeContext);
  renderer.update(cache.takeDirty());
  const { state } = renderer;
  const host = hostOf(nodeContext, []);
  const of = { cache, nodeContext, state, ignored: [], objectsKnown: true, loadBalancers: [], host };
  const explained = (to: string) => explain(connectionOf({ to, port: 80, protocol: "tcp" }, of), of);
  const affinity = ({ notes }: ReturnType<typeof explain>) =>
    notes.flatMap(({ topic, message }) => (topic === "affinity" ? [message] : []));
  expect(affinity(explained("10.96.0.10"))).toEqual([
    expect.stringMatching(/^the client keeps its endpoint/),
  ]);
  const { verdict, frontend, ...rest } = explained("10.96.0.11");
  expect([verdict.result, frontend?.affinitySeconds]).toEqual(["served", 0]);
  expect(affinity({ ...rest, verdict })).toEqual([
    "served without session affinity: all Services together can have 1 ports with session affinity in a family, and this one has 1, 1 more than older ones leave",
  ]);
});

test("explain names the budget if older Services leave too few elements for a Service", () => {
  const of = inputOf({ maxElements: 3 });
  const { verdict } = explain(connectionOf({ to: "10.96.0.10", port: 80, protocol: "tcp" }, of), of);
  expect(verdict).toMatchObject({
    cause: "over-budget",
    message:
      "10.96.0.10 belongs to Service default/web, which is quarantined: all Services together can have 3 elements in the kernel (--max-elements), and this one has 4, 1 more than older ones leave",
    action: expect.stringContaining("delete older, unused Services"),
  });
});

test("a note gives the limits of a Service's clients, or the reason why they have none", () => {
  const notesOf = (context: ContextOptions) => {
    const of = inputOf(context);
    of.cache.putService(service({ clientLimits: { connections: 7 } }));
    const renderer = new Renderer(of.cache, of.nodeContext);
    renderer.update(of.cache.serviceNames());
    const { notes } = explain(connectionOf({ to: "10.96.0.10", port: 80, protocol: "tcp" }, of), {
      ...of,
      state: renderer.state,
    });
    return notes.flatMap(({ topic, message }) => (topic === "client limits" ? [message] : []));
  };
  expect(notesOf({})).toEqual([
    expect.stringMatching(/^each source address can have 7 connections at a time;/),
  ]);
  expect(notesOf({ lacking: ["client-limits"] })).toEqual([
    expect.stringMatching(/^served without limits of its clients:/),
  ]);
});

test("a brief explanation has the notes about the Service port alone", () => {
  const options: ServiceOptions = {
    affinitySeconds: 600,
    passiveHealthCheck: { failures: 3, intervalMs: 1000, ejectMs: 10_000, maxEjected: 50 },
    clientLimits: { connections: 7 },
    onEndpointRemoved: "reset",
    drainTimeoutMs: 60_000,
    connectionTimeouts: { "tcp-established": 7200 },
  };
  const of = inputOf({}, undefined, options);
  of.cache.putSlice(slice({ endpoints: ["172.31.0.5", "172.31.0.6"].map((address) => endpoint(address)) }));
  const renderer = new Renderer(of.cache, of.nodeContext);
  renderer.update(of.cache.serviceNames());
  const whole = { ...of, state: renderer.state };
  const connection = connectionOf({ to: "10.96.0.10", port: 80, protocol: "tcp" }, whole);
  const topics = (notes: readonly Note[]) => notes.map(({ topic }) => topic);
  const brief = explain(connection, whole, "brief");
  expect(topics(brief.notes)).toEqual(["client limits", "reset", "timeouts", "passive health check"]);
  expect(brief.notes.map(({ message }) => message)).toEqual([
    expect.stringMatching(/^each source address can have 7 connections at a time;/),
    "connections to an endpoint that left are reset (annotation nft-proxy.io/on-endpoint-removed); connections to a terminating endpoint are reset after 1m (annotation nft-proxy.io/drain-timeout)",
    expect.stringMatching(/^conntrack forgets the connection after tcp-established=2h/),
    expect.stringMatching(/none of 3 new connections in a row is tried, and ejected for 10s at first/),
  ]);
  expect(topics(explain(connection, whole).notes)).toEqual(["source", "affinity", ...topics(brief.notes)]);
});
