import { describe, expect, it } from "vitest";
import { alternatives, counted, listText, rounded, socketText } from "../../../src/base/text.ts";

describe("socketText", () => {
  it("puts IPv6 addresses in brackets, but no other hosts", () => {
    expect(socketText("10.0.0.1", 80)).toBe("10.0.0.1:80");
    expect(socketText("fd00::1", "80")).toBe("[fd00::1]:80");
    expect(socketText("example.org", 443)).toBe("example.org:443");
  });
});

describe("counted", () => {
  it("puts the noun in the plural unless the number is one", () => {
    expect([0, 1, 2].map((count) => counted(count, "Service"))).toEqual([
      "0 Services",
      "1 Service",
      "2 Services",
    ]);
  });
});

describe("listText", () => {
  it("joins texts with commas and the last one with a word, even if they contain commas", () => {
    expect([[], ["a"], ["a", "b"], ["a", "b", "c"]].map((texts) => listText(texts))).toEqual([
      "",
      "a",
      "a and b",
      "a, b and c",
    ]);
    expect(listText(["a, or b", "c"])).toBe("a, or b and c");
    expect([alternatives(["a"]), alternatives(["a", "b", "c"])]).toEqual(["a", "a, b or c"]);
  });

  it("lists the first five, or another number if given, and counts the others", () => {
    const texts = ["a", "b", "c", "d", "e", "f", "g"];
    expect(listText(texts)).toBe("a, b, c, d, e and 2 more");
    expect(listText(texts, 2)).toBe("a, b and 5 more");
    expect(listText(texts, Infinity)).toBe("a, b, c, d, e, f and g");
  });
});

describe("rounded", () => {
  it("keeps three significant digits, and all digits of a whole number", () => {
    const figures = [0.157069580078125, 12.3456, 99.96, 1234.567, 1_000_001, 0, -0.00012345];
    expect(figures.map(rounded)).toEqual([0.157, 12.3, 100, 1235, 1_000_001, 0, -0.000123]);
  });
});
