import { expect, vi } from "vitest";
import type { Lab } from "./lab/lab.ts";
import { addressesOf, type MachineName } from "./lab/topology.ts";

// SCTP for kernels without SCTP: this file makes the first packets of associations and sends them with a raw
// socket. The node's rules and connection tracking treat them as those of a real association.

/** The first packets of SCTP associations, each from a different port. */
export interface Associations {
  readonly from: MachineName;
  readonly to: string;
  /** 1..65535 */
  readonly port: number;
  readonly count: number;
}

/**
 * Sends packets, which it reads in hex, one on each line. It is in Perl, because Node.js has no raw sockets,
 * and perl-base is part of every Debian.
 */
const SEND = `
  use Socket qw(AF_INET AF_INET6 SOCK_RAW inet_pton pack_sockaddr_in pack_sockaddr_in6);
  my ($from, $to) = map { /:/ ? pack_sockaddr_in6(0, inet_pton(AF_INET6, $_)) : pack_sockaddr_in(0, inet_pton(AF_INET, $_)) } @ARGV;
  socket(my $socket, $ARGV[1] =~ /:/ ? AF_INET6 : AF_INET, SOCK_RAW, 132) or die "$!";
  bind($socket, $from) or die "$!";
  while (<STDIN>) { chomp; defined send($socket, pack("H*", $_), 0, $to) or die "$!" }
`;

const FIRST_PORT = 20_000;

/** Vitest's default of one second is too short for a slow machine. */
const PATIENCE = { timeout: 30_000 };

/**
 * Rules for `node2` that count the SCTP packets that reach its endpoints, by address. Each rule has its own
 * counter, because in Linux 5.10 elements added by rules do not get the set's counter.
 */
const COUNTING = ["ip", "ip6"]
  .map(
    (family) => `table ${family} sctp-seen {
      set seen { typeof ${family} daddr; flags dynamic; size 1000; }
      chain input { type filter hook input priority 0; meta l4proto sctp update @seen { ${family} daddr counter } drop; }
    }`,
  )
  .join("\n");

/** Sends the packets. @returns the number that arrived at each endpoint behind `node2` */
export async function associate(
  lab: Lab,
  { from, to, port, count }: Associations,
): Promise<Record<string, number>> {
  const family = to.includes(":") ? "ip6" : "ip";
  const own = addressesOf(from);
  // Kernels before 6.3 have no `destroy`, so this adds the table before it deletes it.
  const clear = ["ip", "ip6"]
    .map((each) => `add table ${each} sctp-seen; delete table ${each} sctp-seen`)
    .join("\n");
  await lab.mustRun("node2", ["nft", "-f", "-"], { input: `${clear}\n${COUNTING}` });
  const packets = Array.from({ length: count }, (_, i) => initPacket(FIRST_PORT + i, port).toString("hex"));
  const send = ["perl", "-e", SEND, family === "ip" ? own.v4 : own.v6, to] as const;
  await lab.mustRun(from, send, { input: `${packets.join("\n")}\n` });
  return await vi.waitFor(async () => {
    const listing = await lab.mustRun("node2", ["nft", "list", "set", family, "sctp-seen", "seen"]);
    const seen = [...listing.matchAll(/([0-9a-f.:]+) counter packets (\d+)/g)];
    const counts = Object.fromEntries(
      seen.map(([, address = "", packets]): [string, number] => [address, Number(packets)]),
    );
    expect(Object.values(counts).reduce((sum, each) => sum + each, 0)).toBe(count);
    return counts;
  }, PATIENCE);
}

/** Returns an INIT chunk with its common header. Source: RFC 9260, 3.1 and 3.3.2. */
function initPacket(sourcePort: number, port: number): Buffer {
  const packet = Buffer.alloc(32);
  packet.writeUInt16BE(sourcePort, 0);
  packet.writeUInt16BE(port, 2);
  packet.writeUInt8(1, 12);
  packet.writeUInt16BE(20, 14);
  packet.writeUInt32BE(0x1234_0000 + sourcePort, 16);
  packet.writeUInt32BE(65_535, 20);
  packet.writeUInt16BE(1, 24);
  packet.writeUInt16BE(1, 26);
  packet.writeUInt32BE(sourcePort, 28);
  packet.writeUInt32LE(crc32c(packet), 8);
  return packet;
}

/** Returns the CRC-32C, which connection tracking checks. Source: RFC 9260, appendix A. */
function crc32c(bytes: Uint8Array): number {
  let crc = 0xffff_ffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0x82f6_3b78 : 0);
  }
  return ~crc >>> 0;
}
