import { describe, expect, test } from "vitest";
import type { Argv } from "../../../../src/cli/command.ts";
import { explainQueryOf, readProtocol } from "../../../../src/cli/commands/explain-arguments.ts";

const what = (text: string): Argv => ({ what: [text] });

describe("explainQueryOf", () => {
  test.each([
    ["10.96.0.10:53/udp", { to: "10.96.0.10", port: 53, protocol: "udp" }],
    ["[fd00::1]:80", { to: "fd00::1", port: 80, protocol: "tcp" }],
    ["[::ffff:10.96.0.10]:80", { to: "10.96.0.10", port: 80, protocol: "tcp" }],
  ])("the address %s is a connection", (text, question) => {
    expect(explainQueryOf(what(text))).toEqual({ kind: "connection", question });
  });

  test.each([
    ["10.96.0.10", { to: "10.96.0.10", port: 0, protocol: "icmp" }],
    ["fd00::1", { to: "fd00::1", port: 0, protocol: "icmpv6" }],
    ["[fd00::1]", { to: "fd00::1", port: 0, protocol: "icmpv6" }],
  ])("the address %s without a port is a ping", (text, question) => {
    expect(explainQueryOf(what(text))).toEqual({ kind: "connection", question });
  });

  test.each([
    ["shop/cart:http", { service: "shop/cart", port: "http" }],
    ["cart.shop.svc.cluster.local:80", { service: "shop/cart", port: "80" }],
    ["cart.shop.svc", { service: "shop/cart" }],
  ])("the name %s is a Service", (text, named) => {
    expect(explainQueryOf(what(text))).toEqual({ kind: "service", named, from: {} });
  });

  test.each<[given: Argv, message: string]>([
    [what("[fd00::1"), "an IPv6 address with a port needs the form [ADDRESS]:PORT"],
    [what("fd00::1:30080"), "an IPv6 address with a port needs the form [ADDRESS]:PORT"],
    [what("fd00::1:80/udp"), "an IPv6 address with a port needs the form [ADDRESS]:PORT"],
    [{ ...what("10.96.0.10"), proto: ["udp"] }, "a connection needs a port: ADDRESS:PORT"],
    [{ ...what("10.96.0.10"), "from-ip": ["fd00::1"] }, "must be of one family"],
    [what("10.96.0.300:80"), '"10.96.0.300" is not an IP address'],
    [
      what("[fe80::1%eth0]:80"),
      '"fe80::1%eth0" is not an IP address: Services have no addresses with a zone',
    ],
    [what("pod-0.cart.shop.svc.cluster.local"), "must be ADDRESS:PORT[/PROTOCOL], ADDRESS or SERVICE[:PORT]"],
    [what("10.96"), "must be ADDRESS:PORT[/PROTOCOL], ADDRESS or SERVICE[:PORT]"],
    [what("10.96.0.10:"), "must be ADDRESS:PORT[/PROTOCOL], ADDRESS or SERVICE[:PORT]"],
    [{ ...what("10.96.0.10:80"), port: ["81"] }, "--port needs --to; write ADDRESS:PORT instead"],
    [{ ...what("shop/cart"), port: ["81"] }, "--port needs --to; write SERVICE:PORT instead"],
    [{ ...what("shop/cart"), proto: ["udp"] }, "--proto needs an address"],
    [{ ...what("10.96.0.10:80/tcp"), proto: ["udp"] }, "--proto contradicts the protocol of the address"],
    [{ ...what("10.96.0.10:80"), "from-ip": ["fd00::1"] }, "must be of one family"],
    [{ ...what("10.96.0.10:80"), all: true }, "more than one query"],
  ])("%j is refused", (given, message) => {
    expect(() => explainQueryOf(given)).toThrow(message);
  });
});

test("readProtocol names all values that its caller accepts", () => {
  expect(readProtocol("UDP", ["icmp"])).toBe("udp");
  expect(() => readProtocol("foo")).toThrow('must be tcp, udp or sctp, not "foo"');
  expect(() => readProtocol("foo", ["icmp"])).toThrow('must be tcp, udp, sctp or icmp, not "foo"');
});
