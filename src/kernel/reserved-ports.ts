import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { systemErrorCode } from "./host.ts";

/** Ports that outgoing connections of this network namespace do not use as source ports, in both families. */
const RESERVED_PORTS = "/proc/sys/net/ipv4/ip_local_reserved_ports";

/** Records the ports that we reserved, to distinguish them from those of other programs. */
const OUR_PORTS = "/run/nft-proxy/reserved-node-ports";

/** Access to the reserved ports. */
export type ReservedPortFiles = typeof reservedPortFiles;

/** The files of this host. */
export const reservedPortFiles = {
  /** The kernel's list. Rejects with the system's error. */
  read: () => readFile(RESERVED_PORTS, "utf8"),
  // The kernel accepts a long list in several pieces. It reads a line end alone as an empty list.
  write: (text: string) => writeFile(RESERVED_PORTS, `${text}\n`, { flag: "r+" }),
  /** The list of our ports, "" for none. */
  readOurs: async () => {
    try {
      return await readFile(OUR_PORTS, "utf8");
    } catch (error) {
      if (systemErrorCode(error) === "ENOENT") return "";
      throw error;
    }
  },
  writeOurs: async (text: string) => {
    await mkdir(dirname(OUR_PORTS), { recursive: true });
    if (text === "") return rm(OUR_PORTS, { force: true });
    // Renamed into place: a daemon that is stopped while it writes would leave an empty record.
    await writeFile(`${OUR_PORTS}.new`, `${text}\n`);
    await rename(`${OUR_PORTS}.new`, OUR_PORTS);
  },
};

/**
 * Reserves these ports in addition to those of other programs, and releases those that we reserved before and
 * no longer need. Rejects with the system's error.
 * @returns whether the kernel's list changed
 */
export async function reservePorts(wanted: ReadonlySet<number>, files: ReservedPortFiles): Promise<boolean> {
  const before = parsePortList(await files.readOurs());
  if (wanted.size + before.size === 0) return false;
  const reserved = parsePortList(await files.read());
  const others = new Set([...reserved].filter((port) => !before.has(port)));
  const ours = new Set([...wanted].filter((port) => !others.has(port)));
  // Recorded before they are reserved and until they are released, so that no reservation is lost by a crash.
  await files.writeOurs(formatPortList(new Set([...before, ...ours])));
  const next = formatPortList(new Set([...others, ...ours]));
  const isChanged = next !== formatPortList(reserved);
  if (isChanged) await files.write(next);
  await files.writeOurs(formatPortList(ours));
  return isChanged;
}

/**
 * Parses a list of ports and ranges in the format of sysctl: `80,30000-30002`, empty for none. Source:
 * Documentation/networking/ip-sysctl.rst, ip_local_reserved_ports
 */
export function parsePortList(text: string): Set<number> {
  const ports = new Set<number>();
  for (const item of text.trim().split(",")) {
    const [, first, last] = /^(\d+)(?:-(\d+))?$/.exec(item) ?? [];
    if (first === undefined) continue;
    const end = Math.min(Number(last ?? first), 65_535);
    for (let port = Number(first); port <= end; port++) ports.add(port);
  }
  return ports;
}

/** Formats ports as sysctl does: sorted, consecutive ones as ranges. */
export function formatPortList(ports: ReadonlySet<number>): string {
  const ranges: [number, number][] = [];
  for (const port of [...ports].sort((a, b) => a - b)) {
    const last = ranges.at(-1);
    if (last !== undefined && last[1] === port - 1) last[1] = port;
    else ranges.push([port, port]);
  }
  return ranges.map(([first, last]) => (first === last ? String(first) : `${first}-${last}`)).join(",");
}
