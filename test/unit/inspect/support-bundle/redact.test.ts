import { expect, test } from "vitest";
import { foundNames, redactor } from "../../../../src/inspect/support-bundle/redact.ts";

const NAMES = {
  namespace: ["shop", "default"],
  service: ["cart", "cart-v2"],
  pod: ["cart-7d9f-x2x"],
  node: ["worker-1.example.org"],
  port: ["ab", "s"],
  zone: ["zone"],
  host: ["api.example.org"],
};

test.each([
  ["a qualified name", "shop/cart", "namespace-1/service-1"],
  ["a name within a longer one", "shop/cart-v2 and cart-7d9f-x2x", "namespace-1/service-2 and pod-1"],
  ["a node with dots", "on worker-1.example.org.", "on node-1."],
  ["names of every cluster", "default/kubernetes", "default/kubernetes"],
  ["an IPv4 address, twice", "10.96.0.10 . tcp . 53, 10.96.0.10:53", "ip4-1 . tcp . 53, ip4-1:53"],
  ["an IPv6 address", "[fd00:10:96::a]:53", "[ip6-1]:53"],
  [
    "the version of socat, unlike an address",
    '"socat": "1.8.0.3" socat=1.8.0.3 at=1.8.0.3',
    '"socat": "1.8.0.3" socat=1.8.0.3 at=ip4-1',
  ],
  ["a CIDR", "10.244.0.0/16", "ip4-1/16"],
  [
    "an IPv6 address with its port as Node prints it",
    "not available fd00:c0::2:32020",
    "not available ip6-1:32020",
  ],
  ["an IPv6 address before a colon", "fd00::1: refused", "ip6-1: refused"],
  ["an IPv6 address with a short name in it", "fd00::ab", "ip6-1"],
  ["a single letter", "last synced 3 s ago", "last synced 3 s ago"],
  ["an IPv4 address in IPv6", "::ffff:10.0.0.1 [::ffff:10.0.0.1]:80", "::ffff:ip4-1 [::ffff:ip4-1]:80"],
  [
    "a name that is a key of JSON, too",
    '{"zone": "zone","zone":"zone"}',
    '{"zone": "zone-1","zone":"zone-1"}',
  ],
  ["loopback and unspecified addresses", "127.0.0.1 ::1 0.0.0.0", "127.0.0.1 ::1 0.0.0.0"],
  ["a time", "2026-11-21T10:11:12.000Z 10:11:12", "2026-11-21T10:11:12.000Z 10:11:12"],
  ["a version", "nft v1.1.3, Linux 6.18.5", "nft v1.1.3, Linux 6.18.5"],
  ["a classid", "8000:1", "8000:1"],
  [
    "the API server",
    "https://api.example.org:6443, ENOTFOUND api.example.org",
    "https://host-1:6443, ENOTFOUND host-1",
  ],
])("redacting %s turns %j into %j", (_what, text, expected) => {
  expect(redactor(NAMES)(text)).toBe(expected);
});

test("a redactor gives the same pseudonym in every text", () => {
  const redact = redactor(NAMES);
  expect([redact("10.0.0.2 and 10.0.0.1"), redact("10.0.0.1")]).toEqual(["ip4-1 and ip4-2", "ip4-2"]);
});

test("redacted JSON is still JSON", () => {
  const redact = redactor({ service: ["cart", "null"], port: ["7777"] });
  expect(JSON.parse(redact(JSON.stringify({ a: "cart", b: ["10.0.0.1", 7777, null] })))).toEqual({
    a: "service-1",
    b: ["ip4-1", 7777, null],
  });
});

/** The names in one file, without the kinds that have none. */
function found(name: string, text: string) {
  const kinds = Object.entries(foundNames([{ name: `nft-proxy-support/${name}`, text }]));
  return Object.fromEntries(kinds.filter(([, names]) => names.length > 0));
}

test.each<[string, string, string, Record<string, readonly string[]>]>([
  [
    "a deleted Service",
    "daemon.log",
    "I programmed service=shop/cart change=deleted",
    { namespace: ["shop"], service: ["cart"], port: [""] },
  ],
  [
    "a service port, in JSON",
    "daemon.log",
    '{"servicePort":"ip shop/cart:http/tcp"}',
    { namespace: ["shop"], service: ["cart"], port: ["http"] },
  ],
  [
    "a message",
    "daemon.log",
    'server="health check of edge/x2 on"',
    { namespace: ["edge"], service: ["x2"], port: [""] },
  ],
  ["Nodes", "daemon.log", 'node=w-1 nearest=["w-2","w-3"]', { node: ["w-1", "w-2", "w-3"] }],
  ["Nodes, in JSON", "daemon.log", '{"node":"w-1","nearest":["w-2"]}', { node: ["w-1", "w-2"] }],
  [
    "paths, numbers and CIDRs, which are none",
    "daemon.log",
    "/proc/sys/net 3/5 10.0.0.0/16 fd00::a/64 nft-proxy/0.1",
    {},
  ],
  [
    "the labels of metrics",
    "metrics.txt",
    'nft_proxy_x{namespace="shop",service="cart",port="http",protocol="tcp"} 1\nrest_y{host="api.corp:6443"} 1',
    { namespace: ["shop"], service: ["cart"], port: ["http"], host: ["api.corp"] },
  ],
  [
    "hosts of errors",
    "daemon.log",
    "getaddrinfo ENOTFOUND api.corp, https://b.corp:6443: not in the altnames: DNS:c.corp, DNS:d.corp",
    { host: ["b.corp", "api.corp", "c.corp", "d.corp"] },
  ],
])("foundNames finds %s", (_, file, text, expected) => {
  expect(found(file, text)).toEqual(expected);
});
