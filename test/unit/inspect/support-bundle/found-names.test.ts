import { expect, test } from "vitest";
import { foundNames } from "../../../../src/inspect/support-bundle/found-names.ts";

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
    "the hash of source ranges",
    "kernel-ip.json",
    '"name": "firewall-0123456789abcdef0123", "set": "@source-ranges-00112233445566778899", "jump firewall-12"',
    { ranges: ["0123456789abcdef0123", "00112233445566778899"] },
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
