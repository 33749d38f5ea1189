import fc from "fast-check";
import { expect, test } from "vitest";
import { formatPortList, parsePortList, reservePorts } from "../../../src/kernel/reserved-ports.ts";
import { FakeReservedPorts } from "../../support/fake-reserved-ports.ts";

test("our reserved ports are added to those of others, and only ours are released", async () => {
  const files = new FakeReservedPorts("8080,30001");
  expect(await reservePorts(new Set([30000, 30001, 30002]), files)).toBe(true);
  expect(files).toMatchObject({ reserved: "8080,30000-30002", ours: "30000,30002" });
  expect(await reservePorts(new Set([30002, 30003]), files)).toBe(true);
  expect(files).toMatchObject({ reserved: "8080,30001-30003", ours: "30002-30003" });
  expect(await reservePorts(new Set(), files)).toBe(true);
  expect(files).toMatchObject({ reserved: "8080,30001", ours: "" });
});

test("our reserved ports are added again after others have overwritten the list", async () => {
  const files = new FakeReservedPorts();
  await reservePorts(new Set([30000]), files);
  files.reserved = "9000";
  expect(await reservePorts(new Set([30000]), files)).toBe(true);
  expect(files).toMatchObject({ reserved: "9000,30000", ours: "30000" });
  expect(await reservePorts(new Set([30000]), files)).toBe(false);
});

test("no file is written if no ports are wanted and none were reserved", async () => {
  const files = new FakeReservedPorts();
  files.refuses = "EACCES";
  expect(await reservePorts(new Set(), files)).toBe(false);
  await expect(reservePorts(new Set([30000]), files)).rejects.toMatchObject({ code: "EACCES" });
});

test.each([
  ["", []],
  ["\n", []],
  ["80\n", [80]],
  ["80,30000-30002", [80, 30000, 30001, 30002]],
])("the port list %j is read as %j and written back", (text, ports) => {
  expect([...parsePortList(text)]).toEqual(ports);
  expect(formatPortList(new Set(ports))).toBe(text.trim());
});

test("parsePortList reads what formatPortList writes, for every set of ports", () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 65_535 })), (ports) => {
      expect(parsePortList(formatPortList(new Set(ports)))).toEqual(new Set(ports.sort((a, b) => a - b)));
    }),
  );
});
