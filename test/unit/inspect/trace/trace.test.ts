import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { StoryNames } from "../../../../src/inspect/trace/named-story.ts";
import { type PacketStory, StoryCollector } from "../../../../src/inspect/trace/packet-story.ts";
import { parseTraceLine } from "../../../../src/inspect/trace/trace-line.ts";
import { selectionsOf } from "../../../../src/inspect/trace/trace-query.ts";
import { armTransaction, endTraceTransaction, traceTransaction } from "../../../../src/inspect/trace/trace-rules.ts";
import { validateTransaction } from "../../../../src/nft/validate.ts";
import { cacheOf, endpoint, named, port, renderAll, service, slice } from "../../../support/build.ts";
import { schemaErrors } from "../../../support/output-schema.ts";

const VERSIONS = ["1.1.3", "1.1.7"] as const;

function recorded(version: string): string[] {
  const url = new URL(`../../../fixtures/nft-trace/${version}.txt`, import.meta.url);
  return readFileSync(url, "utf8").trimEnd().split("\n");
}

function storiesOf(lines: readonly string[]): PacketStory[] {
  const collector = new StoryCollector(({ table }) => table === "tracer");
  const told = lines.flatMap((text, now) => {
    const line = parseTraceLine(text);
    return line === undefined ? [] : collector.add(line, now);
  });
  return [...told, ...collector.silentSince(Number.POSITIVE_INFINITY)];
}

function endOf({ packet, end }: PacketStory): string {
  const to = `${packet.protocol} ${packet.destination} ${packet.destinationPort}`;
  return end.kind === "passed" ? `${to} passed` : `${to} ${end.kind} by ${end.family} ${end.table} ${end.chain}`;
}

describe.each(VERSIONS)("a recorded trace of nft %s", (version) => {
  test("is understood line by line", () => {
    const unknown = recorded(version).filter((line) => parseTraceLine(line) === undefined);
    expect(unknown).toEqual([]);
    const others = recorded(version).filter((text) => {
      return parseTraceLine(text)?.kind === "other" && !text.includes(" conntrack: ");
    });
    expect(others).toEqual([]);
  });

  test("tells who dropped and who rejected each packet", () => {
    const ends = storiesOf(recorded(version)).map(endOf);
    expect(ends).toContain("tcp 10.96.0.10 80 passed");
    expect(ends).toContain("tcp 10.96.0.11 80 rejected by ip t rej");
    expect(ends).toContain("udp 10.1.1.1 5300 dropped by inet fire_wall in_put");
    expect(ends).toContain("tcp fd00::10 80 passed");
  });

  test("keeps each packet's rules in their order, by chain", () => {
    const story = storiesOf(recorded(version)).find((one) => endOf(one) === "tcp 10.96.0.10 80 passed");
    expect(story?.packet).toMatchObject({ output: "lo", input: "", source: "10.96.0.10", flags: ["syn"] });
    expect(story?.stages.map(({ table, chain, rules }) => [table, chain, rules.map((rule) => rule.chain)])).toEqual([
      ["t", "o", ["o", "bal", "bal"]],
      ["t", "f", []],
    ]);
    expect(story?.stages[1]?.packet?.destination).toBe("10.1.1.1");
  });
});

describe("parseTraceLine", () => {
  const header = "trace id 0a1b2c3d inet fw in";

  test.each([
    [`${header} rule tcp dport 80 drop (verdict drop)`, { kind: "rule", rule: "tcp dport 80 drop", verdict: "drop" }],
    [`${header} rule comment "a (verdict drop) b" accept (verdict accept)`, { kind: "rule", verdict: "accept" }],
    [`${header} unknown rule handle 12 (verdict continue)`, { kind: "rule", rule: "unknown rule 12" }],
    [`${header} policy drop `, { kind: "policy", verdict: "drop" }],
    [`${header} policy accept meta mark 0x00004000 `, { kind: "policy", verdict: "accept" }],
    [`${header} verdict return `, { kind: "other" }],
  ])("%s", (line, wanted) => {
    expect(parseTraceLine(line)).toMatchObject({ id: "0a1b2c3d", family: "inet", table: "fw", chain: "in", ...wanted });
  });

  test.each([
    ["tcp flags == syn", ["syn"]],
    ["tcp flags == 0x12", ["syn", "ack"]],
    ["tcp flags fin | ack", ["fin", "ack"]],
    ["tcp flags == 0x0", []],
  ])("%s", (flags, wanted) => {
    const text = `${header} packet: iif "eth0" ip saddr 10.0.0.1 ip daddr 10.0.0.2 tcp sport 1 tcp dport 2 ${flags} tcp window 64 `;
    expect(parseTraceLine(text)).toMatchObject({ kind: "packet", packet: { flags: wanted, destinationPort: 2 } });
  });

  test("garbage, and lines with parts missing or doubled, never throw, and lose nothing that was complete", () => {
    const line = fc.constantFrom(...VERSIONS.flatMap(recorded));
    const damaged = fc
      .tuple(line, fc.nat(200), fc.nat(40), fc.string())
      .map(([text, at, length, extra]) => text.slice(0, at) + extra + text.slice(at + length));
    fc.assert(
      fc.property(fc.array(fc.oneof(line, damaged, fc.string()), { maxLength: 60 }), (lines) => {
        for (const { packet, stages, end } of storiesOf(lines)) {
          expect(packet.destinationPort).toBeGreaterThanOrEqual(0);
          expect(stages.every(({ table }) => table !== "tracer")).toBe(true);
          if (end.kind !== "passed") expect(end.table).not.toBe("");
        }
      }),
    );
  });
});

describe("StoryCollector", () => {
  const packet = (id: string, table = "tracer") =>
    `trace id ${id} ip ${table} c packet: iif "lo" ip saddr 10.0.0.1 ip daddr 10.0.0.2 tcp sport 1 tcp dport 2 `;

  test("an id that is used again begins another story", () => {
    expect(storiesOf([packet("00000001"), packet("00000001", "x"), packet("00000001")])).toHaveLength(2);
  });

  test("packets that another program's rules trace are not told", () => {
    expect(storiesOf([packet("00000001", "x"), "trace id 00000001 ip x c policy drop "])).toEqual([]);
  });

  test("a story is complete after a time without a line, and no sooner", () => {
    const collector = new StoryCollector(({ table }) => table === "tracer");
    const line = parseTraceLine(packet("00000001"));
    if (line !== undefined) collector.add(line, 1000);
    expect(collector.silentSince(999)).toEqual([]);
    expect(collector.silentSince(1000)).toHaveLength(1);
    expect(collector.silentSince(2000)).toEqual([]);
  });

  test("gathers no more than 1,000 packets at a time", () => {
    const ids = Array.from({ length: 1005 }, (_, i) => i.toString(16).padStart(8, "0"));
    const collector = new StoryCollector(({ table }) => table === "tracer");
    const told = ids.flatMap((id) => {
      const line = parseTraceLine(packet(id));
      return line === undefined ? [] : collector.add(line, 0);
    });
    expect(told.map(({ id }) => id)).toEqual(ids.slice(0, 5));
  });
});

const OBJECTS = {
  services: [service({ name: "shop/cart", clusterIPs: ["10.96.0.10"], ports: [port(80, { nodePort: 30080 })] })],
  slices: [slice({ service: "shop/cart", endpoints: [endpoint("10.1.1.1", { pod: "shop/cart-1" })] })],
};

describe("trace rules", () => {
  const { state } = renderAll(OBJECTS);

  test("every transaction is one that the schema allows", () => {
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

  test.each([
    [{ to: "10.0.0.1", port: 80, protocol: "tcp" as const, fromAddress: "fd00::1" }, "different families"],
    [{}, "say which packets"],
    [{ service: { service: named("shop/none") } }, "no rules are made for shop/none"],
  ])("%o is refused", (query, reason) => {
    expect(() => selectionsOf(query, state)).toThrow(reason);
  });

  test("a client alone: its packets and those to it", () => {
    expect(selectionsOf({ client: "10.0.0.9" }, state)).toEqual([
      { family: "ip", source: "10.0.0.9" },
      { family: "ip", destination: "10.0.0.9" },
    ]);
  });
});

describe("StoryNames", () => {
  test("names Services, endpoints, the node and the meaning of our rules", () => {
    const { state } = renderAll(OBJECTS);
    const names = new StoryNames(state, cacheOf(OBJECTS), new Set(["192.0.2.2"]));
    const own = "trace id 00000001 ip nft-proxy";
    const headers = (to: string) => `iif "lo" ip saddr 192.0.2.2 ip daddr ${to} tcp sport 9`;
    const [story] = storiesOf([
      `trace id 00000001 ip tracer c packet: ${headers("10.96.0.10")} tcp dport 80 tcp flags == syn `,
      `${own} nat-prerouting packet: ${headers("10.96.0.10")} tcp dport 80 `,
      `${own} services rule ip daddr . meta l4proto . th dport vmap @service-ips (verdict goto balance-1)`,
      `trace id 00000001 inet fw forward packet: ${headers("10.1.1.1")} tcp dport 8080 `,
      "trace id 00000001 inet fw forward policy drop ",
    ]);
    if (story === undefined) throw new Error("no story");
    expect(schemaErrors("trace", names.named(story))).toEqual([]);
    expect(schemaErrors("trace", { ...names.named(story), end: { kind: "dropped" } })).not.toEqual([]);
    expect(names.named(story)).toMatchObject({
      source: { name: "this node" },
      destination: { name: "Service shop/cart port 80/tcp" },
      stages: [
        { rules: [{ means: "a Service with endpoints" }] },
        { destination: { address: "10.1.1.1", port: 8080, name: "shop/cart-1" }, policy: "drop" },
      ],
      message: "dropped by the policy of chain forward in table inet fw, which is not nft-proxy's",
    });
  });
});
