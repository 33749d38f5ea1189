import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { systemErrorCode } from "./host.ts";

/** Ports that outgoing connections do not take for their own end, of this network namespace, both families. */
const RESERVED_PORTS = "/proc/sys/net/ipv4/ip_local_reserved_ports";

/** The ports that we have added there, so that those of others are told from ours. */
const OUR_PORTS = "/run/nft-proxy/reserved-node-ports";

/** The file of the reserved ports. */
export interface ReservedPortFiles {
  /** The kernel's list. Rejects with the system's error. */
  read(): Promise<string>;
  write(text: string): Promise<void>;
  /** The list of ours, "" for none. */
  readOurs(): Promise<string>;
  writeOurs(text: string): Promise<void>;
}

/** Those of the host that we run on. */
export const reservedPortFiles: ReservedPortFiles = {
  read: () => readFile(RESERVED_PORTS, "utf8"),
  // The kernel takes a long list in several pieces; a line end is what it takes for an empty one.
  write: (text) => writeFile(RESERVED_PORTS, `${text}\n`, { flag: "r+" }),
  readOurs: async () => {
    try {
      return await readFile(OUR_PORTS, "utf8");
    } catch (error) {
      if (systemErrorCode(error) === "ENOENT") return "";
      throw error;
    }
  },
  writeOurs: async (text) => {
    await mkdir(dirname(OUR_PORTS), { recursive: true });
    if (text === "") await rm(OUR_PORTS, { force: true });
    else await writeFile(OUR_PORTS, `${text}\n`);
  },
};

/**
 * Makes the kernel reserve these ports besides those that others have reserved, and no longer those that we had
 * reserved before. Rejects with the system's error.
 * @returns whether the kernel's list changed
 */
export async function reservePorts(wanted: ReadonlySet<number>, files: ReservedPortFiles): Promise<boolean> {
  const before = parsePortList(await files.readOurs());
  if (wanted.size + before.size === 0) return false;
  const reserved = parsePortList(await files.read());
  const others = new Set([...reserved].filter((port) => !before.has(port)));
  const ours = new Set([...wanted].filter((port) => !others.has(port)));
  // Noted before they are reserved and until they are not, so that a crash leaves none that nobody knows.
  await files.writeOurs(formatPortList(new Set([...before, ...ours])));
  const next = formatPortList(new Set([...others, ...ours]));
  const isChanged = next !== formatPortList(reserved);
  if (isChanged) await files.write(next);
  await files.writeOurs(formatPortList(ours));
  return isChanged;
}

/**
 * Reads a list of ports and ranges as sysctl has it: `80,30000-30002`, empty for none.
 * Source: Documentation/networking/ip-sysctl.rst, ip_local_reserved_ports
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

/** Formats ports as sysctl does: sorted, neighbours as ranges. */
export function formatPortList(ports: ReadonlySet<number>): string {
  const ranges: [number, number][] = [];
  for (const port of [...ports].sort((a, b) => a - b)) {
    const last = ranges.at(-1);
    if (last !== undefined && last[1] === port - 1) last[1] = port;
    else ranges.push([port, port]);
  }
  return ranges.map(([first, last]) => (first === last ? String(first) : `${first}-${last}`)).join(",");
}
