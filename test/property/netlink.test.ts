import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { FAMILIES, type Family } from "../../src/base/family.ts";
import type { Endianness } from "../../src/netlink/attributes.ts";
import {
  decodedElement,
  decodedIntervals,
  type EncodedElement,
  hasEndElements,
} from "../../src/netlink/element-bytes.ts";
import { MessageReader, type NetlinkMessage } from "../../src/netlink/message.ts";
import type { RawElement } from "../../src/netlink/raw-element.ts";
import { RequestWriter } from "../../src/netlink/requests.ts";
import type { ElementSet } from "../../src/nft/ast/ruleset.ts";
import { anyContexts, anyObjects } from "../support/arbitraries.ts";
import { renderAll } from "../support/build.ts";
import { encodedElement, encodedSet } from "../support/encoded-elements.ts";
import { runs } from "../support/property-runs.ts";

const endianness = fc.constantFrom<Endianness>("LE", "BE");

/** Bytes of messages whose headers, and those of their attributes, are often right. */
const messageLike = (order: Endianness): fc.Arbitrary<Buffer> => {
  const attribute = (content: fc.Arbitrary<Uint8Array>): fc.Arbitrary<Uint8Array> =>
    fc
      .record({ type: fc.nat(12), content, extra: fc.constantFrom(0, 0, 0, 0, 1, -1, 70_000) })
      .map(({ type, content, extra }) => attributeBytes(order, type, content, extra));
  const number = fc.constantFrom(
    Uint8Array.of(0, 0, 0, 1),
    Uint8Array.of(0, 0, 0, 2),
    Uint8Array.of(0, 0, 0, 0, 0, 0, 1, 0),
    Buffer.from("counter\0"),
  );
  const leaf = attribute(fc.oneof(number, fc.uint8Array({ maxLength: 12 })));
  const nested = (inner: fc.Arbitrary<Uint8Array>) =>
    attribute(fc.array(inner, { maxLength: 4 }).map((parts) => Buffer.concat(parts)));
  const tree = fc.oneof(leaf, nested(leaf), nested(nested(leaf)), nested(nested(nested(leaf))));
  return fc
    .record({
      type: fc.oneof(
        fc.nat(34).map((type) => 0xa00 | type),
        fc.nat(5),
        // Flows.
        fc.constantFrom(0x100, 0x102),
        fc.nat(0xffff),
      ),
      family: fc.constantFrom(2, 10, 1),
      attributes: fc.array(tree, { maxLength: 5 }),
      extra: fc.constantFrom(...Array<number>(20).fill(0), 3, -30, 1 << 21),
    })
    .map(({ type, family, attributes, extra }) => {
      const bytes = Buffer.concat([Buffer.alloc(20), ...attributes]);
      write(order, bytes, 32, Math.max(0, bytes.length + extra), 0);
      write(order, bytes, 16, type, 4);
      bytes[16] = family;
      return bytes;
    });
};

function attributeBytes(order: Endianness, type: number, content: Uint8Array, extra: number): Buffer {
  const bytes = Buffer.alloc((4 + content.length + 3) & ~3);
  write(order, bytes, 16, (4 + content.length + extra) & 0xffff, 0);
  write(order, bytes, 16, type, 2);
  bytes.set(content, 4);
  return bytes;
}

function write(order: Endianness, bytes: Buffer, bits: 16 | 32, number: number, at: number): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  if (bits === 16) view.setUint16(at, number, order === "LE");
  else view.setUint32(at, number, order === "LE");
}

/** Reads bytes in pieces of these sizes in turn. */
function readInPieces(order: Endianness, bytes: Buffer, sizes: readonly number[]): NetlinkMessage[] {
  const reader = new MessageReader(order);
  const messages: NetlinkMessage[] = [];
  for (let at = 0, n = 0; at < bytes.length; n++) {
    const size = sizes[n % sizes.length] ?? 1;
    // Of a buffer of its own, which is overwritten once it was read, as sockets do.
    const piece = Uint8Array.from(bytes.subarray(at, at + size));
    messages.push(...reader.read(piece));
    piece.fill(0xff);
    at += size;
  }
  return messages;
}

const sizes = fc.array(fc.integer({ min: 1, max: 90 }), { minLength: 1, maxLength: 5 });

describe("messages of the kernel", () => {
  test("are the same wherever their bytes are split, and whatever the bytes are", () => {
    const stream = endianness.chain((order) =>
      fc.record({
        order: fc.constant(order),
        parts: fc.array(
          fc.oneof({ arbitrary: messageLike(order), weight: 20 }, fc.uint8Array({ maxLength: 60 })),
          {
            maxLength: 8,
          },
        ),
      }),
    );
    fc.assert(
      fc.property(stream, sizes, ({ order, parts }, pieces) => {
        const bytes = Buffer.concat(parts);
        expect(readInPieces(order, bytes, pieces)).toEqual(new MessageReader(order).read(bytes));
      }),
      { numRuns: runs(2000) },
    );
  });

  test("after an impossible length are not read, which is reported once", () => {
    const fine = new RequestWriter("LE").dump({ family: "ip", table: "t", set: "s" });
    for (const length of [0, 15, (1 << 20) + 1, 0xffff_ffff]) {
      const bad = Buffer.alloc(16);
      bad.writeUInt32LE(length);
      const reader = new MessageReader("LE");
      const messages = [fine, bad, fine, fine].flatMap((bytes) => reader.read(bytes));
      expect(messages).toEqual([
        { kind: "other" },
        { kind: "malformed", reason: `message of ${length} bytes` },
      ]);
    }
  });

  test("have no elements if no caller wants the elements of their port id", () => {
    const answer = (portId: number) => {
      const bytes = new RequestWriter("LE").element({ family: "ip", table: "t", set: "s" }, "abcd");
      bytes.writeUInt16LE((10 << 8) | 12, 4);
      bytes.writeUInt32LE(portId, 12);
      return bytes;
    };
    const reader = new MessageReader("LE", { elements: (portId) => portId === 7 });
    expect(reader.read(Buffer.concat([answer(7), answer(8)]))).toMatchObject([
      { portId: 7, name: "s", elements: [{ key: "abcd" }] },
      { portId: 8, name: "s", elements: [] },
    ]);
  });

  test("with impossible attributes are reported, and the next are read", () => {
    const request = new RequestWriter("LE").element({ family: "ip", table: "t", set: "s" }, "abcd");
    // An answer has the layout of the request.
    request.writeUInt16LE((10 << 8) | 12, 4);
    for (let at = 20; at < request.length; at++) {
      const damaged = Buffer.from(request);
      damaged[at] = 0xee;
      const [first, second] = new MessageReader("LE").read(Buffer.concat([damaged, request]));
      expect(["malformed", "elements"]).toContain(first?.kind);
      expect(second).toMatchObject({ kind: "elements", table: "t", name: "s", elements: [{ key: "abcd" }] });
    }
  });
});

function readBack(
  { spec }: ElementSet,
  raws: readonly EncodedElement[],
  order: Endianness,
): Map<string, string> {
  if (hasEndElements(spec)) return new Map(decodedIntervals(spec, raws)?.map((key) => [key, ""]));
  return new Map(
    raws.map((raw) => {
      const { key = "undecoded", value = "" } = decodedElement(spec, raw, order) ?? {};
      return [key, value];
    }),
  );
}

describe("elements as the kernel has them", () => {
  test("are decoded to what was encoded, and pass through messages, for the rules of any cluster", () => {
    fc.assert(
      fc.property(anyObjects, anyContexts, endianness, (objects, contexts, order) => {
        const { ruleset } = renderAll(objects, contexts).state;
        for (const family of FAMILIES) {
          for (const set of ruleset[family]?.sets.values() ?? []) {
            const raws = [...encodedSet(set, order)];
            expect(readBack(set, raws, order)).toEqual(set.elements);
            for (const { key } of raws.slice(0, 200))
              expect(throughMessage(family, set, key, order)).toMatchObject([{ key }]);
          }
        }
      }),
      { numRuns: runs(30) },
    );
  });

  /** The elements of an answer of the kernel, made of the request for one: it has the same layout. */
  function throughMessage(
    family: Family,
    { spec }: ElementSet,
    key: string,
    order: Endianness,
  ): readonly RawElement[] {
    const answer = new RequestWriter(order).element({ family, table: "t", set: spec.name }, key);
    write(order, answer, 16, (10 << 8) | 12, 4);
    const messages = new MessageReader(order).read(answer);
    expect(messages).toMatchObject([{ kind: "elements", op: "new", family, table: "t", name: spec.name }]);
    return messages.flatMap((message) => (message.kind === "elements" ? message.elements : []));
  }

  const ports = {
    name: "m",
    key: ["ipv4_addr", "inet_proto", "inet_service"],
    dynamic: false,
    counter: false,
  } as const;
  const KEY = "\x0a\x60\x00\x0a\x06\0\0\0\x00\x50\0\0";

  test("have numbers of the host in its byte order, and addresses and ports in that of the network", () => {
    const spec = { name: "m", key: ["classid", "integer"], value: ["ipv4_addr", "inet_service"] } as const;
    const entry = { ...spec, dynamic: false, counter: false };
    const value = "\x0a\xf4\x01\x10\x1f\x90\0\0";
    const encoded = (order: Endianness) =>
      encodedElement(entry, "2147483652 . 258", "10.244.1.16 . 8080", order);
    expect(encoded("LE")).toEqual({ key: "\x04\0\0\x80\x02\x01\0\0", isEnd: false, value });
    expect(encoded("BE")).toEqual({ key: "\x80\0\0\x04\0\0\x01\x02", isEnd: false, value });
    const one = encodedElement(
      { ...ports, value: "verdict" },
      "10.96.0.10 . tcp . 80",
      "goto balance-2",
      "BE",
    );
    expect(one).toEqual({ key: KEY, isEnd: false, value: "goto balance-2" });
  });

  test.each([
    ["a key that is too short", { key: KEY.slice(1) }],
    ["a key that is too long", { key: `${KEY}\0` }],
    ["padding that is not zero", { key: `${KEY.slice(0, -1)}x` }],
    ["another end than the key", { keyEnd: `${KEY.slice(0, 9)}\x51\0\0` }],
    ["the mark of an interval's end", { isEnd: true }],
    ["another verdict", { value: "continue" }],
    ["data for a verdict", { value: "\x01\x02\x03\x04" }],
  ])("are not ours with %s", (_, change) => {
    const raw = { key: KEY, isEnd: false, value: "drop" };
    const spec = { ...ports, value: "verdict" } as const;
    expect(decodedElement(spec, raw, "LE")).toEqual({ key: "10.96.0.10 . tcp . 80", value: "drop" });
    expect(decodedElement(spec, { ...raw, ...change }, "LE")).toBeUndefined();
  });

  test.each([
    ["addresses of a range that differ", `\x0b${KEY.slice(1)}`],
    ["a range that ends before it begins", `${KEY.slice(0, 9)}\x4f\0\0`],
  ])("are not ours with %s", (_, keyEnd) => {
    const spec = { ...ports, interval: true } as const;
    const raw = { key: KEY, keyEnd: KEY, isEnd: false, value: "" };
    expect(decodedElement(spec, raw, "LE")).toEqual({ key: "10.96.0.10 . tcp . 80-80", value: "" });
    expect(decodedElement(spec, { ...raw, keyEnd }, "LE")).toBeUndefined();
  });

  test("of source ranges are foreign if an end or a beginning has no counterpart", () => {
    const spec = { name: "s", key: ["ipv4_addr"], dynamic: false, counter: false, interval: true } as const;
    const mark = (key: string, isEnd: boolean): EncodedElement => ({ key, isEnd, value: "" });
    const [zero, low, high] = ["\0\0\0\0", "\x0a\0\0\0", "\x0b\0\0\0"].map(String) as [
      string,
      string,
      string,
    ];
    const fine = [mark(low, false), mark(high, true)];
    expect(decodedIntervals(spec, [...fine, mark(zero, true)])).toEqual(["10.0.0.0/8"]);
    expect(decodedIntervals(spec, fine)).toEqual(["10.0.0.0/8"]);
    expect(decodedIntervals(spec, [mark(high, true)])).toBeUndefined();
    expect(decodedIntervals(spec, [...fine, mark("\x0a\x01\0\0", false)])).toBeUndefined();
    expect(decodedIntervals(spec, [...fine, mark("\x0c\0\0", false)])).toBeUndefined();
  });
});
