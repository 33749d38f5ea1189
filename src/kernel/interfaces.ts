import type { HostFiles } from "./host.ts";

/** Ethernet, and what looks like it to IP: veth, bridges, bonds, VLANs, VXLAN. Source: linux/if_arp.h. */
const ETHERNET = "1";

/** Files that ports of a bridge or bond have: their packets pass the hooks of the bridge or bond, too. */
const PORT_FILES = ["brport/state", "bonding_slave/state"];

/** Returns the names of network interfaces, sorted. @throws the system's error where /proc does not tell */
export type InterfaceReader = () => Promise<readonly string[]>;

/**
 * Reads the network interfaces of this namespace whose packets may take the fast path. An interface is looked at once: a veth
 * that becomes the port of a bridge later stays, which does no harm.
 * @param patterns names, an asterisk at the end for any name; none for all of Ethernet but ports of bridges and bonds
 */
export function interfaceReader(files: HostFiles, patterns: readonly string[]): InterfaceReader {
  let known = new Map<string, boolean>();
  return async () => {
    const names = await interfaceNames(files);
    const next = new Map<string, boolean>();
    for (const name of names) next.set(name, known.get(name) ?? (await isWanted(files, name, patterns)));
    known = next;
    return names.filter((name) => next.get(name)).sort();
  };
}

/** Parses /proc/net/dev: two lines of headings, then a line for each interface with its name before a colon. */
async function interfaceNames(files: HostFiles): Promise<string[]> {
  const lines = (await files.read("/proc/net/dev")).split("\n").slice(2);
  return lines.flatMap((line) => {
    const end = line.lastIndexOf(":");
    return end === -1 ? [] : [line.slice(0, end).trim()];
  });
}

async function isWanted(files: HostFiles, name: string, patterns: readonly string[]): Promise<boolean> {
  if (name === "lo") return false;
  if (patterns.length > 0) return patterns.some((pattern) => matchesPattern(name, pattern));
  const folder = `/sys/class/net/${name}`;
  // Not there where /sys is that of another network namespace.
  const type = await files.read(`${folder}/type`).catch(() => ETHERNET);
  if (type.trim() !== ETHERNET) return false;
  for (const file of PORT_FILES) if (await exists(files, `${folder}/${file}`)) return false;
  return true;
}

function matchesPattern(name: string, pattern: string): boolean {
  return pattern.endsWith("*") ? name.startsWith(pattern.slice(0, -1)) : name === pattern;
}

async function exists(files: HostFiles, path: string): Promise<boolean> {
  return await files.read(path).then(
    () => true,
    () => false,
  );
}
