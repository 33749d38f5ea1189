import { describe, expect, test } from "vitest";
import type { ConnectionTimeouts } from "../../../src/features/connection-timeouts/timeouts.ts";
import type { Rule } from "../../../src/nft/ast/json.ts";
import { diffRuleset } from "../../../src/nft/delta.ts";
import { ruleText } from "../../../src/nft/text/rule-text.ts";
import { rebuildTransaction, toTransaction } from "../../../src/nft/transaction.ts";
import { transactionText } from "../../../src/nft/transaction-text.ts";
import { applyPlan, transactionsOf } from "../../../src/ruleset/apply-plan.ts";
import { Renderer } from "../../../src/ruleset/renderer.ts";
import { elementOwners } from "../../../src/ruleset/ruleset-state.ts";
import {
  cacheOf,
  elementsOf,
  named,
  port,
  renderAll,
  type ServiceOptions,
  service,
  slice,
  slicePort,
  testNodeContext,
} from "../../support/build.ts";
import { FakeKernel } from "../../support/fake-kernel.ts";
import { rulesetText } from "../../support/ruleset-text.ts";

const PORTS = [port(80, { name: "web" }), port(53, { name: "dns", protocol: "udp" })];
const BOTH: ConnectionTimeouts = { "tcp-established": 7200, udp: 5 };
const options = (name: string, more: ServiceOptions = {}): ServiceOptions => ({
  ...{ name: `shop/${name}`, ports: PORTS, connectionTimeouts: BOTH },
  ...more,
});
const plain = service({ name: "shop/web", ports: PORTS });
const timed = service(options("web"));
const sliceOf = (name: string) =>
  slice({
    service: `shop/${name}`,
    name,
    ports: [slicePort(8080, { name: "web" }), slicePort(53, { name: "dns", protocol: "udp" })],
    endpoints: ["10.244.1.1"],
  });
const SLICE = sliceOf("web");
const bytes = (renderer: Renderer) => JSON.stringify(rebuildTransaction(renderer.state.ruleset));
const objectsIn = (renderer: Renderer) => [...(renderer.state.ruleset.ip?.timeouts?.values() ?? [])];

function rendered(...services: readonly ReturnType<typeof service>[]): Renderer {
  const slices = services.map(({ name }) => sliceOf(name.split("/")[1] ?? ""));
  return renderAll({ services, slices });
}

describe("the rules for timeouts", () => {
  test("are there only while a Service has some, and leave the bytes of the same objects without them", () => {
    const cache = cacheOf({ services: [timed], slices: [SLICE] });
    const renderer = new Renderer(cache, testNodeContext());
    renderer.update(cache.takeDirty());
    expect(bytes(renderer)).toMatch(/ct timeout/);
    cache.putService(plain);
    renderer.update(cache.takeDirty());
    expect(bytes(renderer)).toBe(bytes(renderAll({ services: [plain], slices: [SLICE] })));
    expect(bytes(renderer)).not.toMatch(/connection-timeouts/);
  });

  test("are an object and a chain for each protocol, and a lookup before an endpoint is chosen", () => {
    const renderer = rendered(timed);
    const { chains, timeouts } = renderer.state.ruleset.ip ?? {};
    const rules = (chain: string) => (chains?.get(chain)?.rules ?? []).map((rule) => ruleText(rule as Rule));
    expect(rules("balancing")[0]).toBe("meta priority & ffff:fffc vmap @connection-timeouts");
    expect(objectsIn(renderer).map(({ protocol, policy }) => [protocol, policy])).toEqual([
      [
        "tcp",
        {
          ...{ syn_sent: 120, syn_recv: 60, established: 7200, fin_wait: 120, close_wait: 60 },
          ...{ last_ack: 30, time_wait: 120, close: 10, retrans: 300, unack: 300 },
        },
      ],
      ["udp", { unreplied: 5, replied: 120 }],
    ]);
    for (const name of timeouts?.keys() ?? []) expect(rules(name)).toEqual([`ct timeout set "${name}"`]);
    const verdicts = elementsOf(renderer, "connection-timeouts").map((text) => text.split(" ").at(-1));
    expect(verdicts.sort()).toEqual([...(timeouts?.keys() ?? [])].sort());
  });

  test("take states that a Service does not name from the node", () => {
    const context = testNodeContext({ settings: { "udp-stream": 77 } });
    const renderer = renderAll({ services: [timed], slices: [SLICE] }, context);
    expect(objectsIn(renderer).map(({ policy }) => policy.replied)).toContain(77);
  });

  test("are shared by Services with equal values, and kept until the last of them goes", () => {
    const other = service(options("other", { clusterIPs: ["10.96.0.11"], affinitySeconds: 60 }));
    const third = service(
      options("third", { clusterIPs: ["10.96.0.12"], connectionTimeouts: { "tcp-established": 7201 } }),
    );
    const cache = cacheOf({
      services: [timed, other, third],
      slices: ["web", "other", "third"].map(sliceOf),
    });
    const renderer = new Renderer(cache, testNodeContext());
    renderer.update(cache.takeDirty());
    expect(objectsIn(renderer)).toHaveLength(3);
    cache.deleteService(named("shop/web"));
    cache.deleteService(named("shop/third"));
    renderer.update(cache.takeDirty());
    expect(objectsIn(renderer)).toHaveLength(2);
    const chains = [...(renderer.state.ruleset.ip?.chains.keys() ?? [])];
    expect(chains.filter((name) => name.startsWith("timeouts-"))).toHaveLength(2);
  });

  test("have one element for all addresses of a service port, whose owner is known", () => {
    const many = service(
      options("web", {
        externalIPs: ["203.0.113.1"],
        loadBalancerIPs: ["203.0.113.2"],
        internal: "Local",
        ports: [port(80, { name: "web", nodePort: 30_080, ranges: [{ first: 8000, last: 8009 }] })],
      }),
    );
    const renderer = rendered(many);
    expect(elementsOf(renderer, "connection-timeouts")).toHaveLength(1);
    const [key = ""] = elementsOf(renderer, "connection-timeouts")[0]?.split(": ") ?? [];
    const state = renderer.state.families.ip;
    if (state === undefined) throw new Error("no IPv4");
    const owners = elementOwners(state);
    expect(owners.ofElement("connection-timeouts", key).map(({ service: { name } }) => name)).toEqual([
      "shop/web",
    ]);
    expect(owners.ofPart(objectsIn(renderer)[0]?.name ?? "")).toHaveLength(1);
  });

  test("are absent for a Service without endpoints, and for one whose only values are for other protocols", () => {
    const of = (renderer: Renderer) => objectsIn(renderer).map(({ protocol }) => protocol);
    expect(of(renderAll({ services: [timed] }))).toEqual([]);
    expect(of(rendered(service(options("web", { connectionTimeouts: { udp: 5 } }))))).toEqual(["udp"]);
  });
});

describe("the budget of timeouts", () => {
  test("serves the newest Services of a namespace without them", () => {
    // Two lists each, and the last one has those of the first.
    const services = Array.from({ length: 18 }, (_, index) =>
      service(
        options(`s${index}`, {
          clusterIPs: [`10.96.1.${index}`],
          createdAt: index,
          connectionTimeouts: { "tcp-established": 7200 + (index % 17), udp: 5 + (index % 17) },
        }),
      ),
    );
    const { state } = renderAll({ services });
    const without = [...state.budgets.without("connection-timeouts")];
    expect(new Set(without.map(([key]) => key.split(":")[0]?.split(" ").at(-1)))).toEqual(
      new Set(["shop/s16"]),
    );
    expect(without[0]?.[1]).toBe(
      "the Services of a namespace can have 32 different connection timeouts in a family, and this one has 2, 2 more than older ones leave",
    );
  });

  test("counts a list of both protocols once for each, though no Service has ports of both", () => {
    const services = Array.from({ length: 34 }, (_, index) =>
      service(
        options(`s${index}`, {
          ports: PORTS.slice(index % 2, (index % 2) + 1),
          clusterIPs: [`10.96.${2 + (index >> 8)}.${index & 255}`],
          createdAt: index,
          connectionTimeouts: { "tcp-established": 7200 + (index >> 1), udp: 5 + (index >> 1) },
        }),
      ),
    );
    const without = [...renderAll({ services }).state.budgets.without("connection-timeouts").keys()];
    expect(without).toEqual([expect.stringContaining("shop/s32"), expect.stringContaining("shop/s33")]);
  });

  test("is nothing where the kernel has none", () => {
    const objects = { services: [timed], slices: [SLICE] };
    const off = renderAll(objects, testNodeContext({ lacking: ["connection-timeouts"] }));
    expect(bytes(off)).toBe(bytes(renderAll({ services: [plain], slices: [SLICE] })));
    expect([...off.state.budgets.without("connection-timeouts").values()]).toEqual([
      "this node's kernel cannot set them",
      "this node's kernel cannot set them",
    ]);
  });
});

describe("changes of timeouts", () => {
  const [before, after] = [
    rendered(timed),
    rendered(service(options("web", { connectionTimeouts: { udp: 6 } }))),
  ].map(({ state }) => state.ruleset);

  test("add objects before the chains that use them, and delete them after these, in nft's own language", () => {
    const kernel = new FakeKernel();
    kernel.apply(rebuildTransaction(before ?? {}));
    const texts = applyPlan(diffRuleset(before ?? {}, after ?? {})).flatMap((step) =>
      [...transactionsOf(step)].map((transaction) => {
        kernel.apply(transaction);
        return [step.name, transactionText(transaction).text] as const;
      }),
    );
    expect(rulesetText(kernel.ruleset)).toBe(rulesetText(after ?? {}));
    expect(texts.map(([name, text]) => [name, text.startsWith("{")])).toEqual([
      ["new sets and chains", true],
      ["everything at once", true],
      ["removed chains", false],
    ]);
    const gone = [...(before?.ip?.timeouts?.keys() ?? [])].filter((name) => !after?.ip?.timeouts?.has(name));
    expect(texts.at(-1)?.[1].trim().split("\n").sort()).toEqual(
      gone
        .flatMap((name) =>
          ["flush chain", "delete chain", "delete ct timeout"].map((verb) => `${verb} ip nft-proxy ${name}`),
        )
        .sort(),
    );
  });

  test("recreate a table whose object has our name and other values", () => {
    const name = [...(before?.ip?.timeouts?.keys() ?? [])][0] ?? "";
    const policy = before?.ip?.timeouts?.get(name);
    if (before?.ip === undefined || policy === undefined) throw new Error("no object");
    const changed = { ...policy, policy: { ...policy.policy, established: 9 } };
    const timeouts = new Map([...(before.ip.timeouts ?? []), [name, changed] as const]);
    expect(diffRuleset({ ip: { ...before.ip, timeouts } }, { ip: before.ip })).toMatchObject([
      { mode: "recreate" },
    ]);
  });

  test("that would mix a deletion with other commands are a fault of ours", () => {
    const { nftables } = toTransaction(diffRuleset(before ?? {}, after ?? {}));
    expect(() => transactionText({ nftables })).toThrow(/in a transaction that deletes timeouts/);
  });
});
