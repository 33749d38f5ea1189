import { readFileSync, readlinkSync } from "node:fs";
import fc from "fast-check";
import { afterEach, describe, expect, test, vi } from "vitest";
import { storyNamer } from "../../../../src/inspect/trace/named-story.ts";
import { type PacketStory, StoryCollector } from "../../../../src/inspect/trace/packet-story.ts";
import { isLossLine, parseTraceLine } from "../../../../src/inspect/trace/trace-line.ts";
import { tracePackets } from "../../../../src/inspect/trace/trace-packets.ts";
import {
  armTransaction,
  endTraceTransaction,
  HOOK_ENDS,
  selectedPackets,
  type TraceQuery,
  traceTransaction,
} from "../../../../src/inspect/trace/trace-rules.ts";
import { removeStaleTraceTables } from "../../../../src/kernel/trace-tables.ts";
import { ruleText } from "../../../../src/nft/text/rule-text.ts";
import { validateTransaction } from "../../../../src/nft/transaction-text.ts";
import { cacheOf, endpoint, named, port, renderAll, service, slice } from "../../../support/build.ts";
import { ManualClock } from "../../../support/manual-clock.ts";
import { schemaErrors } from "../../../support/output-schema.ts";
import { stubNft } from "../../../support/stub-nft.ts";

const VERSIONS = ["1.1.3", "1.1.7"] as const;

function recorded(version: string): string[] {
  const url = new URL(`../../../fixtures/nft-trace/${version}.txt`, import.meta.url);
  // Two chains set the trace there; nft-proxy's table has one.
  const text = readFileSync(url, "utf8").replaceAll(/ tracer [op] rule /g, " tracer limited rule ");
  return text.trimEnd().split("\n");
}

function collectorAt(clock: ManualClock): {
  readonly add: (text: string) => PacketStory[];
  readonly collector: StoryCollector;
} {
  const collector = new StoryCollector("tracer", clock);
  const add = (text: string): PacketStory[] => {
    if (isLossLine(text)) collector.lose();
    const line = parseTraceLine(text);
    return line === undefined ? [] : collector.add(line);
  };
  return { add, collector };
}

/** The stories of some lines. Each packet passes the end of postrouting, unless a chain stops it. */
function storiesOf(lines: readonly string[]): PacketStory[] {
  const { add, collector } = collectorAt(new ManualClock());
  const told = lines.flatMap((line) => {
    const [, id = ""] = /^trace id (\S+) ip6? tracer limited rule/.exec(line) ?? [];
    return [...add(line), ...(id === "" ? [] : add(passing(id)))];
  });
  return [...told, ...collector.silentFor(0)];
}

/** The line of a packet at the end of a hook. */
const passing = (id: string, hook: keyof typeof HOOK_ENDS = "postrouting") =>
  `trace id ${id} ip tracer ${HOOK_ENDS[hook]} policy accept `;

function endOf({ packet, end }: PacketStory): string {
  const to = `${packet.protocol} ${packet.destination} ${packet.destinationPort}`;
  return end.kind === "dropped" || end.kind === "rejected"
    ? `${to} ${end.kind} by ${end.family} ${end.table} ${end.chain}`
    : `${to} ${end.kind}`;
}

describe.each(VERSIONS)("a recorded trace of nft %s", (version) => {
  test("is parsed line by line", () => {
    const unknown = recorded(version).filter((line) => parseTraceLine(line) === undefined);
    expect(unknown).toEqual([]);
    const others = recorded(version).filter((text) => {
      return parseTraceLine(text)?.kind === "other" && !text.includes(" conntrack: ");
    });
    expect(others).toEqual([]);
  });

  test("gives the chain that dropped or rejected each packet", () => {
    const ends = storiesOf(recorded(version)).map(endOf);
    expect(ends).toContain("tcp 10.96.0.10 80 passed");
    expect(ends).toContain("tcp 10.96.0.11 80 rejected by ip t rej");
    expect(ends).toContain("udp 10.1.1.1 5300 dropped by inet fire_wall in_put");
    expect(ends).toContain("tcp fd00::10 80 passed");
  });

  test("lists each packet's rules in order, by chain", () => {
    const story = storiesOf(recorded(version)).find((one) => endOf(one) === "tcp 10.96.0.10 80 passed");
    expect(story?.packet).toMatchObject({ output: "lo", input: "", source: "10.96.0.10", flags: ["syn"] });
    expect(
      story?.stages.map(({ table, chain, rules }) => [table, chain, rules.map((rule) => rule.chain)]),
    ).toEqual([
      ["t", "o", ["o", "bal", "bal"]],
      ["t", "f", []],
    ]);
    expect(story?.stages[1]?.packet?.destination).toBe("10.1.1.1");
  });
});

describe("parseTraceLine", () => {
  const header = "trace id 0a1b2c3d inet fw in";

  test.each([
    [
      `${header} rule tcp dport 80 drop (verdict drop)`,
      { kind: "rule", rule: "tcp dport 80 drop", verdict: "drop" },
    ],
    [
      `${header} rule comment "a (verdict drop) b" accept (verdict accept)`,
      { kind: "rule", verdict: "accept" },
    ],
    [`${header} unknown rule handle 12 (verdict continue)`, { kind: "rule", rule: "unknown rule 12" }],
    [`${header} policy drop `, { kind: "policy", verdict: "drop" }],
    [`${header} policy accept meta mark 0x00004000 `, { kind: "policy", verdict: "accept" }],
    [`${header} verdict return `, { kind: "other" }],
  ])("%s", (line, wanted) => {
    expect(parseTraceLine(line)).toMatchObject({
      id: "0a1b2c3d",
      family: "inet",
      table: "fw",
      chain: "in",
      ...wanted,
    });
  });

  test.each([
    ["tcp flags == syn", ["syn"]],
    ["tcp flags == 0x12", ["syn", "ack"]],
    ["tcp flags fin | ack", ["fin", "ack"]],
    ["tcp flags == 0x0", []],
  ])("%s", (flags, wanted) => {
    const text = `${header} packet: iif "eth0" ip saddr 10.0.0.1 ip daddr 10.0.0.2 tcp sport 1 tcp dport 2 ${flags} tcp window 64 `;
    expect(parseTraceLine(text)).toMatchObject({
      kind: "packet",
      packet: { flags: wanted, destinationPort: 2 },
    });
  });

  test.each([
    ['iif "eth0" ', "eth0", ""],
    ['iif 12 oif "pod3" ', "12", "pod3"],
    ['oif "lo" ', "", "lo"],
  ])("%s", (interfaces, input, output) => {
    const text = `${header} packet: ${interfaces}ip saddr 10.0.0.1 ip daddr 10.0.0.2 `;
    expect(parseTraceLine(text)).toMatchObject({ packet: { input, output } });
  });

  test("garbage and damaged lines never throw, and complete stories survive them", () => {
    const line = fc.constantFrom(...VERSIONS.flatMap(recorded));
    const damaged = fc
      .tuple(line, fc.nat(200), fc.nat(40), fc.string())
      .map(([text, at, length, extra]) => text.slice(0, at) + extra + text.slice(at + length));
    fc.assert(
      fc.property(fc.array(fc.oneof(line, damaged, fc.string()), { maxLength: 60 }), (lines) => {
        for (const { packet, stages, end } of storiesOf(lines)) {
          expect(packet.destinationPort).toBeGreaterThanOrEqual(0);
          expect(stages.every(({ table }) => table !== "tracer")).toBe(true);
          if (end.kind === "dropped" || end.kind === "rejected") expect(end.table).not.toBe("");
        }
      }),
    );
  });
});

describe("StoryCollector", () => {
  const packet = (id: string, table = "tracer", input = "eth0", to = "10.0.0.2") =>
    `trace id ${id} ip ${table} c packet: iif "${input}" ip saddr 10.0.0.1 ip daddr ${to} tcp sport 1 tcp dport 2 `;
  const traced = (id: string) =>
    `trace id ${id} ip tracer limited rule meta nftrace set 1 (verdict continue)`;
  const own = (id: string) => [packet(id), traced(id)];
  const lost = "# ERROR: We lost some netlink events!";

  test("a reused id begins another story", () => {
    const lines = [...own("00000001"), packet("00000001", "x"), ...own("00000001")];
    expect(storiesOf(lines)).toHaveLength(2);
  });

  test.each([
    ["that pass the own table later", [packet("00000001", "x"), "trace id 00000001 ip x c policy drop "]],
    [
      "that passed another one first",
      [
        packet("00000001", "x"),
        packet("00000001"),
        "trace id 00000001 ip tracer c policy accept ",
        traced("00000001"),
      ],
    ],
  ])("packets that another program's rules trace are not told: %s", (_, lines) => {
    expect(storiesOf(lines)).toEqual([]);
  });

  test("a packet that returns over loopback after translation is reported, although it is no longer selected", () => {
    const accept = "trace id 00000001 ip x c policy accept ";
    const translated = packet("00000001", "tracer", "", "10.0.0.3").replace(" c ", " output-end ");
    const lines = [...own("00000001"), packet("00000001", "x"), accept, translated, passing("00000001")];
    const back = [
      packet("00000002", "tracer", "lo", "10.0.0.3"),
      "trace id 00000002 inet fw in policy drop ",
    ];
    expect(storiesOf([...lines, ...back]).map(endOf)).toEqual([
      "tcp 10.0.0.3 2 dropped by inet fw in",
      "tcp 10.0.0.2 2 passed",
    ]);
    expect(storiesOf(back)).toEqual([]);
  });

  test("a story is complete only after a time without a line", () => {
    const clock = new ManualClock();
    const { add, collector } = collectorAt(clock);
    own("00000001").forEach(add);
    clock.advance(499);
    expect(collector.silentFor(500)).toEqual([]);
    clock.advance(1);
    expect(collector.silentFor(500)).toHaveLength(1);
    expect(collector.silentFor(0)).toEqual([]);
  });

  test("a change of the wall clock completes no story", () => {
    const clock = new ManualClock(1000);
    const { add, collector } = collectorAt(clock);
    own("00000001").forEach(add);
    clock.set(4_000_000);
    expect(collector.silentFor(500)).toEqual([]);
    expect(collector.silentFor(0)).toMatchObject([{ startedAt: 1000 }]);
  });

  test("after lost messages, only a drop is a known end", () => {
    const clock = new ManualClock();
    const { add, collector } = collectorAt(clock);
    own("00000001").forEach(add);
    add(lost);
    own("00000002").forEach(add);
    const [dropped] = add("trace id 00000002 inet fw in policy drop ");
    own("00000003").forEach(add);
    clock.advance(201);
    own("00000004").forEach(add);
    add(passing("00000004"));
    const told = [dropped, ...collector.silentFor(0)];
    expect(told.map((story) => [story?.id, story?.end.kind])).toEqual([
      ["00000002", "dropped"],
      ["00000001", "unknown"],
      ["00000003", "unknown"],
      ["00000004", "passed"],
    ]);
  });

  test.each([
    ["policy accept ", "passed"],
    ["rule tcp dport 2 accept (verdict accept)", "passed"],
    ["rule tcp dport 2 queue to 0 (verdict queue)", "unknown"],
    ["rule tcp dport 2 jump other (verdict jump other)", "unknown"],
  ])("a way whose last line is %s ends as %s", (line, kind) => {
    const told = storiesOf([...own("00000001"), packet("00000001", "x"), `trace id 00000001 ip x c ${line}`]);
    expect(told.map(({ end }) => end.kind)).toEqual([kind]);
  });

  test.each<[string, readonly (keyof typeof HOOK_ENDS)[], object]>([
    ["that reaches the end of input", ["prerouting", "input"], { kind: "passed" }],
    ["that reaches the end of postrouting", ["prerouting", "forward", "postrouting"], { kind: "passed" }],
    ["without a route", ["prerouting"], { kind: "stopped", after: "prerouting" }],
    ["that is gone after forward", ["prerouting", "forward"], { kind: "stopped", after: "forward" }],
    ["that is gone in its first hook", [], { kind: "stopped" }],
  ])("a packet %s ends there", (_what, hooks, end) => {
    const { add, collector } = collectorAt(new ManualClock());
    for (const line of [...own("00000001"), ...hooks.map((hook) => passing("00000001", hook))]) add(line);
    expect(collector.silentFor(0)).toMatchObject([{ id: "00000001", end }]);
  });

  test("after the end, no stories begin, and open ones end with an unknown outcome", () => {
    const { add, collector } = collectorAt(new ManualClock());
    own("00000001").forEach(add);
    expect(collector.end()).toBe(true);
    own("00000002").forEach(add);
    expect(collector.rest()).toMatchObject([{ id: "00000001", end: { kind: "unknown" } }]);
    expect(collector.end()).toBe(false);
  });

  test("gathers no more than 1,000 packets at a time", () => {
    const ids = Array.from({ length: 1005 }, (_, i) => i.toString(16).padStart(8, "0"));
    const { add } = collectorAt(new ManualClock());
    const told = ids.flatMap((id) => own(id).flatMap(add));
    expect(told.map(({ id, end }) => `${id} ${end.kind}`)).toEqual(
      ids.slice(0, 5).map((id) => `${id} unknown`),
    );
  });
});

describe("tracePackets", () => {
  afterEach(() => vi.useRealTimers());

  function start(stop: Promise<unknown>) {
    vi.useFakeTimers();
    const applied: string[] = [];
    let tell: (line: string) => void = () => {};
    const stories = tracePackets({
      nft: stubNft({
        apply: async (transaction) => {
          applied.push(JSON.stringify(transaction));
          return { durationMs: 0, bytes: 0 };
        },
        list: async () => '{"nftables": []}',
      }),
      selections: [{ family: "ip", destination: "10.0.0.2" }],
      durationMs: 10_000,
      rate: 5,
      stop,
      follow: (_path, _args, onLine) => {
        tell = onLine;
        return { pid: undefined, stop: () => {}, ended: new Promise(() => {}) };
      },
    });
    const told: PacketStory[] = [];
    const ended = (async () => {
      for await (const story of stories) told.push(story);
    })();
    const pass = (id: string) => {
      const [, table = ""] = /"(nft-proxy-trace-[\d-]+)"/.exec(applied[0] ?? "") ?? [];
      tell(`trace id ${id} ip ${table} limited packet: iif "eth0" ip saddr 10.0.0.1 ip daddr 10.0.0.2 `);
      tell(`trace id ${id} ip ${table} limited rule meta nftrace set 1 (verdict continue)`);
      tell(`trace id ${id} ip ${table} input-end policy accept `);
    };
    return { told, ended, pass, applied };
  }

  test("lasts for its duration, although the wall clock changes", async () => {
    const { told, ended, pass, applied } = start(new Promise(() => {}));
    await vi.advanceTimersByTimeAsync(1000);
    vi.setSystemTime(Date.now() + 3_600_000);
    await vi.advanceTimersByTimeAsync(8000);
    pass("00000001");
    expect(applied).toHaveLength(2);
    await vi.advanceTimersByTimeAsync(1100);
    await ended;
    expect(told).toMatchObject([{ id: "00000001", end: { kind: "passed" } }]);
    expect(applied).toHaveLength(3);
  });

  test("waits after an interrupt for the rest of a packet's story", async () => {
    let interrupt: (value: unknown) => void = () => {};
    const { told, ended, pass } = start(
      new Promise((resolve) => {
        interrupt = resolve;
      }),
    );
    await vi.advanceTimersByTimeAsync(1000);
    pass("00000001");
    interrupt(undefined);
    await vi.advanceTimersByTimeAsync(300);
    expect(told).toEqual([]);
    await vi.advanceTimersByTimeAsync(300);
    await ended;
    expect(told).toMatchObject([{ end: { kind: "passed" } }]);
  });
});

const OBJECTS = {
  services: [
    service({ name: "shop/cart", clusterIPs: ["10.96.0.10"], ports: [port(80, { nodePort: 30080 })] }),
  ],
  slices: [slice({ service: "shop/cart", endpoints: [endpoint("10.1.1.1", { pod: "shop/cart-1" })] })],
};

describe("trace rules", () => {
  const { state } = renderAll(OBJECTS);
  const selectionsOf = (query: TraceQuery, of = state) => selectedPackets(query, of).selections;

  test("frontends beyond the maximum are counted", () => {
    const externalIPs = Array.from({ length: 110 }, (_, i) => `203.0.113.${i + 1}`);
    const { state: many } = renderAll({ services: [service({ name: "shop/cart", externalIPs })] });
    const { selections, omitted } = selectedPackets({ service: { service: named("shop/cart") } }, many);
    expect([selections.length, omitted]).toEqual([100, 11]);
  });

  test("every transaction is valid by the schema", () => {
    const selections = selectionsOf({ service: { service: named("shop/cart") } }, state);
    expect(selections).toEqual([
      { family: "ip", destination: "10.96.0.10", protocol: "tcp", destinationPort: 80 },
      { family: "ip", destination: "node", protocol: "tcp", destinationPort: 30080 },
    ]);
    const table = "nft-proxy-trace-4026531836-17";
    validateTransaction(traceTransaction(table, selections, 5));
    validateTransaction(armTransaction(table, selections, 35));
    validateTransaction(endTraceTransaction(table, selections));
  });

  test("a table that is being set up counts as active, so traces in other containers do not remove it", async () => {
    const own = /\d+/.exec(readlinkSync("/proc/self/ns/pid"))?.[0];
    const table = `nft-proxy-trace-${Number(own) + 1}-17`;
    const { nftables } = traceTransaction(table, [{ family: "ip" }], 5);
    const listed = nftables.flatMap((command) =>
      "add" in command && "element" in command.add ? [command.add.element] : [],
    );
    const objects = [{ table: { family: "ip", name: table } }, ...listed.map((set) => ({ set }))];
    const nft = stubNft({ list: async () => JSON.stringify({ nftables: objects }) });
    expect(await removeStaleTraceTables(nft)).toBe(0);
  });

  test.each([
    [{ to: "10.0.0.1", port: 80, protocol: "tcp" as const, fromAddress: "fd00::1" }, "different families"],
    [{}, "select the packets"],
  ])("%o is refused", (query, reason) => {
    expect(() => selectionsOf(query, state)).toThrow(reason);
  });

  test("a client alone selects packets from and to it", () => {
    expect(selectionsOf({ client: "10.0.0.9" }, state)).toEqual([
      { family: "ip", source: "10.0.0.9" },
      { family: "ip", destination: "10.0.0.9" },
    ]);
  });
});

describe("storyNamer", () => {
  test.each([
    [
      "prerouting",
      "no route to 10.1.1.1",
      "stopped by the kernel after prerouting, outside nftables: no route to 10.1.1.1; it goes to 10.1.1.1:8080 (shop/cart-1)",
    ],
    ["forward", undefined, "stopped by the kernel after forward, outside nftables: for a reason other than"],
    [undefined, undefined, "stopped in its first hook, outside nftables"],
  ] as const)(
    "say where the kernel stopped a packet outside nftables: after %s",
    (after, reason, message) => {
      const { state } = renderAll(OBJECTS);
      const headers = (to: string, toPort: number) =>
        `packet: iif "pod3" ip saddr 10.0.0.9 ip daddr ${to} tcp sport 9 tcp dport ${toPort} tcp flags == syn `;
      const { add, collector } = collectorAt(new ManualClock());
      add(`trace id 00000001 ip tracer c ${headers("10.96.0.10", 80)}`);
      add("trace id 00000001 ip tracer limited rule meta nftrace set 1 (verdict continue)");
      if (after !== undefined)
        add(`trace id 00000001 ip tracer ${HOOK_ENDS[after]} ${headers("10.1.1.1", 8080)}`);
      const [story] = collector.silentFor(0);
      if (story === undefined) throw new Error("no story");
      const told = storyNamer(state, cacheOf(OBJECTS), new Set(), state.ruleset)(story, undefined, reason);
      expect(told.message).toContain(message);
      expect(schemaErrors("trace", told)).toEqual([]);
    },
  );

  test("give the meaning of a rule of nft-proxy with a counter, and none for a foreign rule", () => {
    const { state } = renderAll({ ...OBJECTS, node: { clusterCIDRs: ["10.1.0.0/16"] } } as typeof OBJECTS);
    const name = storyNamer(state, cacheOf(OBJECTS), new Set(), state.ruleset);
    const rules = [...(state.ruleset.ip?.chains.get("reject-chain")?.rules ?? [])].map(ruleText);
    const line = (rule: string, verdict: string) =>
      `trace id 00000001 ip nft-proxy reject-chain rule ${rule.replace("counter", "counter packets 1 bytes 60")} (verdict ${verdict})`;
    const [story] = storiesOf([
      "trace id 00000001 ip tracer c packet: ip saddr 10.0.0.9 ip daddr 10.96.0.10 tcp dport 81 ",
      "trace id 00000001 ip tracer limited rule meta nftrace set 1 (verdict continue)",
      ...rules.slice(0, -1).map((rule) => line(rule, "continue")),
      line("meta mark set 0x7 masquerade", "continue"),
      line(rules.at(-1) ?? "", "drop"),
    ]);
    if (story === undefined) throw new Error("no story");
    const told = name(story).stages.flatMap((stage) => stage.rules.map(({ means }) => means));
    expect(told.at(-1)).toBe("refused with an ICMP error: no endpoints");
    expect(told.at(-2)).toBeUndefined();
    expect(rules.length).toBeGreaterThan(1);
  });

  test("name Services, endpoints, the node and the meaning of nft-proxy's rules", () => {
    const { state } = renderAll(OBJECTS);
    const onHost = slice({
      service: "shop/cart",
      name: "on-host",
      endpoints: [endpoint("192.0.2.2", { pod: "shop/x" })],
    });
    const cache = cacheOf({ ...OBJECTS, slices: [...(OBJECTS.slices ?? []), onHost] });
    const name = storyNamer(state, cache, new Set(["192.0.2.2"]), state.ruleset);
    const own = "trace id 00000001 ip nft-proxy";
    const headers = (to: string) => `iif "lo" ip saddr 192.0.2.2 ip daddr ${to} tcp sport 9`;
    const [story] = storiesOf([
      `trace id 00000001 ip tracer c packet: ${headers("10.96.0.10")} tcp dport 80 tcp flags == syn `,
      "trace id 00000001 ip tracer limited rule meta nftrace set 1 (verdict continue)",
      `${own} nat-prerouting packet: ${headers("10.96.0.10")} tcp dport 80 `,
      `${own} services rule meta priority set ip daddr . meta l4proto . th dport map @lists goto balancing (verdict goto balancing)`,
      `${own} balancing rule meta priority vmap @balancers (verdict goto balance-1)`,
      `trace id 00000001 inet fw forward packet: ${headers("10.1.1.1")} tcp dport 8080 `,
      "trace id 00000001 inet fw forward policy drop ",
    ]);
    if (story === undefined) throw new Error("no story");
    expect(schemaErrors("trace", name(story))).toEqual([]);
    expect(schemaErrors("trace", { ...name(story), end: { kind: "dropped" } })).not.toEqual([]);
    expect(name(story)).toMatchObject({
      source: { name: "this node" },
      destination: { name: "Service shop/cart port 80/tcp" },
      stages: [
        { rules: [{}, { means: "a Service with endpoints" }] },
        { destination: { address: "10.1.1.1", port: 8080, name: "shop/cart-1" }, policy: "drop" },
      ],
      message: "dropped by the policy of chain forward in table inet fw, which is not nft-proxy's",
    });
  });
});
