import { describe, expect, test } from "vitest";
import { matchNodePortAddresses } from "../../../src/sync/node-port-addresses.ts";

describe("the NodePort addresses", () => {
  const addresses = ["10.0.0.2", "127.0.0.1", "192.0.2.9"];

  test.each([[["0.0.0.0/0"]], [["10.0.0.0/8", "0.0.0.0/0"]]])("of %j are all addresses", (cidrs) => {
    expect(matchNodePortAddresses(cidrs, addresses)).toEqual({ kind: "all" });
  });

  test.each([
    [["10.0.0.0/8"], ["10.0.0.2"]],
    [
      ["10.0.0.2/32", "192.0.2.0/24"],
      ["10.0.0.2", "192.0.2.9"],
    ],
    [[], []],
    [["127.0.0.0/8"], []],
    [["172.16.0.0/12"], []],
  ])("of %j are %j", (cidrs, matched) => {
    expect(matchNodePortAddresses(cidrs, addresses)).toEqual({ kind: "addresses", addresses: matched });
  });
});
