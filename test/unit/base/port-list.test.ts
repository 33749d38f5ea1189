import fc from "fast-check";
import { expect, test } from "vitest";
import { formatPortList, parsePortList } from "../../../src/base/port-list.ts";

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
