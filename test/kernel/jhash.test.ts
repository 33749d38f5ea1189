import { createSocket, type Socket } from "node:dgram";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { execaSync } from "execa";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { jhash, scaleHash } from "../../src/base/jhash.ts";

// Compares the hash of src/base/jhash.ts with the kernel's own. Packets from thousands of addresses pass
// loopback, and a rule writes their hashes into a map.

const PORT = 9999;
const SEED = 0x6e667470;
const MODULUS = 4093;
const KEYS = 2000;

const sources = {
  ip: Array.from({ length: KEYS }, (_, i) => `127.${(i * 7) & 255}.${i >> 3}.${(i * 31) & 255}`),
  ip6: Array.from(
    { length: KEYS },
    (_, i) => `fd00:${(i * 7919).toString(16).slice(-4)}::${(i + 1).toString(16)}`,
  ),
} as const;
const DESTINATIONS = { ip: "127.0.0.1", ip6: "::1" } as const;

const table = (family: "ip" | "ip6") => {
  const flow = `${family} saddr . ${family} daddr . th sport . th dport`;
  return `table ${family} hashes {
    map sources { typeof ${family} saddr : meta mark; size 65535; flags dynamic,timeout; timeout 1h; }
    map flows { typeof ${flow} : meta mark; size 65535; flags dynamic,timeout; timeout 1h; }
    chain output {
      type filter hook output priority 0
      udp dport ${PORT} meta mark set jhash ${family} saddr mod ${MODULUS} seed ${SEED} update @sources { ${family} saddr : meta mark }
      udp dport ${PORT} meta mark set jhash ${flow} mod ${MODULUS} seed ${SEED} update @flows { ${flow} : meta mark }
    }
  }`;
};

beforeAll(async () => {
  writeFileSync("/proc/sys/net/ipv6/ip_nonlocal_bind", "1");
  execaSync("ip", ["-6", "route", "add", "local", "fd00::/16", "dev", "lo"]);
  for (const family of ["ip", "ip6"] as const) {
    execaSync("nft", ["-f", "-"], { input: table(family) });
    for (const address of sources[family]) await sendFrom(address, DESTINATIONS[family]);
  }
});
afterAll(() => {
  for (const family of ["ip", "ip6"])
    execaSync("nft", ["delete", "table", family, "hashes"], { reject: false });
  execaSync("ip", ["-6", "route", "del", "local", "fd00::/16", "dev", "lo"], { reject: false });
  writeFileSync("/proc/sys/net/ipv6/ip_nonlocal_bind", "0");
});

async function sendFrom(address: string, to: string): Promise<void> {
  const socket: Socket = createSocket(to.includes(":") ? "udp6" : "udp4");
  socket.bind(0, address);
  await once(socket, "listening");
  await new Promise((resolve) => socket.send("x", PORT, to, resolve));
  socket.close();
}

type Part = string | number;

/** Returns the elements that the kernel added to a map: the parts of the key and the hash. */
function hashes(
  family: "ip" | "ip6",
  map: string,
): { readonly key: readonly Part[]; readonly hash: number }[] {
  const { stdout } = execaSync("nft", ["-j", "list", "map", family, "hashes", map]);
  const { nftables } = JSON.parse(stdout) as {
    nftables: { map?: { elem: [{ elem: { val: unknown } }, number][] } }[];
  };
  return (nftables.find((entry) => entry.map !== undefined)?.map?.elem ?? []).map(([{ elem }, hash]) => {
    const { val } = elem;
    return { key: typeof val === "string" ? [val] : (val as { concat: Part[] }).concat, hash };
  });
}

/**
 * Returns the bytes as they are in the kernel's registers: in network order, each part padded to four bytes.
 */
function bytesOf(part: Part): number[] {
  if (typeof part === "number") return [part >> 8, part & 255, 0, 0];
  if (!part.includes(":")) return part.split(".").map(Number);
  const [head = "", tail] = part.split("::").map((half) => half.split(":").filter((word) => word !== ""));
  const missing = 8 - head.length - (tail?.length ?? 0);
  const words = [...head, ...new Array<string>(missing).fill("0"), ...(tail ?? [])];
  return words.flatMap((word) => [Number.parseInt(word, 16) >> 8, Number.parseInt(word, 16) & 255]);
}

describe.each(["ip", "ip6"] as const)("jhash of %s packets", (family) => {
  test.each(["sources", "flows"])("equals the kernel's for thousands of %s", (map) => {
    const seen = hashes(family, map);
    expect(seen.length).toBeGreaterThanOrEqual(KEYS * 0.9);
    const computed = seen.map(({ key }) => {
      return { key, hash: scaleHash(jhash(Uint8Array.from(key.flatMap(bytesOf)), SEED), MODULUS) };
    });
    expect(computed).toEqual(seen);
  });
});
