import { describe, expect, it } from "vitest";
import { counted, socketText } from "../../../src/base/text.ts";

describe("socketText", () => {
  it("puts an IPv6 address in brackets, and no other host", () => {
    expect(socketText("10.0.0.1", 80)).toBe("10.0.0.1:80");
    expect(socketText("fd00::1", "80")).toBe("[fd00::1]:80");
    expect(socketText("example.org", 443)).toBe("example.org:443");
  });
});

describe("counted", () => {
  it("gives the noun a plural unless there is exactly one", () => {
    expect([0, 1, 2].map((count) => counted(count, "Service"))).toEqual(["0 Services", "1 Service", "2 Services"]);
  });
});
