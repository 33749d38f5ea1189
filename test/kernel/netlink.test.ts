import { endianness } from "node:os";
import { execaSync } from "execa";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { FAMILIES } from "../../src/base/family.ts";
import { REQUESTS } from "../../src/kernel/netlink-requests.ts";
import { decodedIntervals } from "../../src/netlink/element-bytes.ts";
import type { NetlinkMessage } from "../../src/netlink/message.ts";
import { type Ruleset, type SetSpec, TABLE_NAME } from "../../src/nft/ast/ruleset.ts";
import { creation } from "../../src/nft/delta.ts";
import { toTransaction } from "../../src/nft/transaction.ts";
import { encodedElement, encodedSet } from "../support/encoded-elements.ts";
import { everyRule } from "../support/every-rule.ts";
import { elementsOf, expectElements, identities, NetlinkSocket } from "../support/netlink-socket.ts";
import { townRuleset } from "../support/town-ruleset.ts";

const HOST = endianness();

function nft(args: readonly string[], input = ""): string {
  return execaSync("nft", [...args], { input, maxBuffer: 100_000_000 }).stdout;
}

/**
 * Whether the kernel accepts commands. Older kernels have no `destroy` (before Linux 6.3) and no element for
 * all other keys (before 5.13).
 */
function isTaken(commands: string): boolean {
  return execaSync("nft", ["-c", commands], { reject: false }).exitCode === 0;
}

const ANY_OTHER = `add table ip t; add map ip t m { type ipv4_addr : verdict; }; add element ip t m { * : drop }`;
const CAN_DESTROY = isTaken("destroy table ip none");
const CAN_HAVE_ANY_OTHER = isTaken(ANY_OTHER);

function load(ruleset: Ruleset): void {
  const deltas = Object.values(ruleset).map((table) => creation(table, "create"));
  nft(["-j", "-f", "-"], JSON.stringify(toTransaction(deltas)));
}

let socket: NetlinkSocket;
beforeEach(() => {
  nft(["flush", "ruleset"]);
  socket = new NetlinkSocket();
});
afterEach(async () => {
  await socket.close();
  nft(["flush", "ruleset"]);
});

const RULESETS: readonly (readonly [name: string, ruleset: Ruleset])[] = [
  ["the recorded town", townRuleset("town")],
  ["every kind of rule", everyRule()],
];

describe("the kernel's elements", () => {
  test.each(RULESETS)("equal the encoded ones of %s, byte for byte", async (_, ruleset) => {
    load(ruleset);
    await expectElements(socket, ruleset);
  });
});

describe("a set of source ranges", () => {
  test.each([
    ["ip", ["0.0.0.0/8", "10.0.0.1-10.0.0.9", "192.0.2.1", "255.0.0.0/8"]],
    ["ip", ["128.0.0.0/1"]],
    ["ip", ["0.0.0.0/1"]],
    ["ip6", ["::/16", "fd00:c0::1", "ff00::/8"]],
    ["ip6", ["2001:db8::/32", "fd00::1-fd00::ffff:1"]],
  ] as const)("of %s with %j is encoded as in the kernel, and decoded", async (family, ranges) => {
    const type = family === "ip" ? "ipv4_addr" : "ipv6_addr";
    nft(
      ["-f", "-"],
      `add table ${family} t; add set ${family} t s { type ${type}; flags interval; }
      add element ${family} t s { ${ranges.join(", ")} }`,
    );
    const spec: SetSpec = { name: "s", key: [type], dynamic: false, counter: false, interval: true };
    const raws = elementsOf(await socket.ask(REQUESTS.dump({ family, table: "t", set: "s" })));
    const elements = new Map(ranges.map((range) => [range, ""]));
    expect(identities(raws)).toEqual(identities(encodedSet({ spec, elements }, HOST)));
    expect(decodedIntervals(spec, raws)).toEqual(ranges);
  });
});

describe("an element's other attributes", () => {
  test.each([
    ["the counter of its set", "counter;", "1.2.3.4 counter packets 5 bytes 700", { packets: 5 }],
    ["a timeout", "flags timeout;", "1.2.3.4 timeout 90s expires 60s", { timeoutMs: 90_000 }],
    ["a comment", "", '1.2.3.4 comment "here"', {}],
  ])("are read: %s", async (_, flags, element, expected) => {
    nft(
      ["-f", "-"],
      `add table ip t; add set ip t s { type ipv4_addr; ${flags} }; add element ip t s { ${element} }`,
    );
    const [raw] = elementsOf(await socket.ask(REQUESTS.dump({ family: "ip", table: "t", set: "s" })));
    expect(raw).toMatchObject({
      key: "\x01\x02\x03\x04",
      isEnd: false,
      value: "",
      ...expected,
    });
    const left = raw?.expiresMs ?? 0;
    expect(left > 0 && left <= 60_000).toBe("timeoutMs" in expected);
  });

  test.skipIf(!CAN_HAVE_ANY_OTHER)("are no key, for the element of all other keys", async () => {
    nft(["-f", "-"], ANY_OTHER);
    const raws = elementsOf(await socket.ask(REQUESTS.dump({ family: "ip", table: "t", set: "m" })));
    expect(raws).toMatchObject([{ key: "", value: "drop" }]);
  });
});

describe("a request", () => {
  const place = { family: "ip", table: "t", set: "m" } as const;
  const spec: SetSpec = {
    name: "m",
    key: ["ipv4_addr", "inet_proto", "inet_service"],
    value: ["classid"],
    dynamic: false,
    counter: false,
  };
  const encoded = (key: string) => encodedElement(spec, key, "5", HOST);

  beforeEach(() => {
    nft(
      ["-f", "-"],
      `add table ip t
       add map ip t m { type ipv4_addr . inet_proto . inet_service : classid; }
       add element ip t m { 10.0.0.1 . tcp . 80 : 0:5, 10.0.0.1 . udp . 53 : 0:5, 10.0.0.2 . sctp . 1 : 0:5 }`,
    );
  });

  test("for a single element is answered with this element", async () => {
    const wanted = encoded("10.0.0.1 . udp . 53");
    const answer = await socket.ask(REQUESTS.element(place, wanted.key));
    expect(answer).toMatchObject([
      { kind: "elements", elements: [wanted] },
      { kind: "error", errno: 0 },
    ]);
  });

  test("for a missing element or a missing set is refused with ENOENT", async () => {
    const missing = await socket.ask(REQUESTS.element(place, encoded("10.0.0.9 . tcp . 80").key));
    expect(missing).toEqual([{ kind: "error", errno: 2 }]);
    expect(await socket.ask(REQUESTS.dump({ ...place, set: "gone" }))).toEqual([{ kind: "error", errno: 2 }]);
  });

  test("for the generation is answered with its number", async () => {
    socket.send(REQUESTS.generation());
    const [answer] = await socket.until(({ kind }) => kind === "generation");
    expect(answer).toMatchObject({ kind: "generation", generation: expect.any(Number), program: "socat" });
  });
});

describe("notifications of transactions", () => {
  let changes: NetlinkSocket;
  beforeEach(async () => {
    changes = new NetlinkSocket({ hears: true });
    changes.send(REQUESTS.generation());
    await nextCommit();
  });
  afterEach(async () => {
    await changes.close();
  });

  const nextCommit = () => changes.until(({ kind }) => kind === "generation");

  test("contain everything that was sent, and the sender", async () => {
    const ruleset = townRuleset("town");
    load(ruleset);
    const messages = await nextCommit();
    const end = messages.at(-1);
    expect(end).toMatchObject({ kind: "generation", program: expect.any(String) });
    for (const family of FAMILIES) {
      const table = ruleset[family];
      const own = messages.filter((message) => "family" in message && message.family === family);
      const names = (kind: NetlinkMessage["kind"]) =>
        own.flatMap((message) => (message.kind === kind && "name" in message ? [message.name] : []));
      // Anonymous sets in our rules have names in the kernel.
      const named = names("set").filter((name) => !name.startsWith("__set"));
      expect(names("table")).toEqual([TABLE_NAME]);
      expect(new Set(names("chain"))).toEqual(new Set(table?.chains.keys()));
      expect(new Set(named)).toEqual(new Set(table?.sets.keys()));
      const rules = [...(table?.chains.values() ?? [])].flatMap(({ name, rules }) => rules.map(() => name));
      expect(names("rule").sort()).toEqual(rules.sort());
      for (const set of table?.sets.values() ?? []) {
        const elements = own.flatMap((message) =>
          message.kind === "elements" && message.name === set.spec.name ? message.elements : [],
        );
        expect(identities(elements), set.spec.name).toEqual(identities(encodedSet(set, HOST)));
      }
    }
    const portIds = new Set(messages.map((message) => ("portId" in message ? message.portId : undefined)));
    expect(portIds.size).toBe(1);
    expect(messages.every((message) => !("op" in message) || message.op === "new")).toBe(true);
    expect(messages.some(({ kind }) => kind === "other" || kind === "malformed")).toBe(false);
  });

  test.each([
    ["delete element ip t m { 10.0.0.1 }", "elements", { op: "delete", name: "m" }],
    ["destroy element ip t m { 10.0.0.1 }", "elements", { op: "delete", name: "m" }],
    ["add element ip t m { 10.0.0.2 : jump c }", "elements", { op: "new", name: "m" }],
    ["flush chain ip t c", "rule", { op: "delete", name: "c" }],
    ["add rule ip t c accept", "rule", { op: "new", name: "c" }],
    ["add counter ip t other", "object", { op: "new", name: "other" }],
    ["add set ip t new { type ipv4_addr; }", "set", { op: "new", name: "new" }],
    ["delete set ip t s", "set", { op: "delete", name: "s" }],
    ["delete table ip t", "table", { op: "delete", name: "t" }],
    ["destroy table ip t", "table", { op: "delete", name: "t" }],
    ["add table inet foreign", "table", { op: "new", family: undefined, table: "foreign" }],
  ])("report: %s", async (command, kind, expected) => {
    if (command.startsWith("destroy") && !CAN_DESTROY) return;
    nft(
      ["-f", "-"],
      `add table ip t; add chain ip t c; add rule ip t c drop; add map ip t m { type ipv4_addr : verdict; }
       add element ip t m { 10.0.0.1 : goto c }; add set ip t s { type ipv4_addr; }`,
    );
    await nextCommit();
    nft([command]);
    const messages = await nextCommit();
    const ofKind = messages.filter((message) => message.kind === kind);
    expect(ofKind).toMatchObject([{ family: "ip", table: "t", ...expected }]);
  });
});
