import type { HostFiles } from "../../kernel/host.ts";
import { interfaceNames, networkInterfaces } from "../../kernel/routes.ts";
import type { FeatureHost } from "../seam/daemon-part.ts";
import type { FastPathSettings } from "./rules.ts";

/**
 * Ethernet, and interfaces that look like it to IP: veth, bridges, bonds, VLANs, VXLAN. Source:
 * linux/if_arp.h.
 */
const ETHERNET = "1";

/**
 * Files that only ports of a bridge or bond have. Their packets also pass the hooks of the bridge or bond.
 */
const PORT_FILES = ["brport/state", "bonding_slave/state"];

/**
 * Maximum number of devices of a flow table: the kernel takes this many in one message (NFT_NETDEVICE_MAX).
 */
export const MOST_DEVICES = 256;

/** Reads network interfaces. @throws the system's error if /proc cannot be read */
export type InterfaceReader = ReturnType<typeof interfaceReader>;

/** The sorted names of the network interfaces in the flow tables, and of those without room there. */
export type FastPathInterfaces = Awaited<ReturnType<typeof limited>>;

/**
 * Reads the network interfaces of this namespace whose packets may take the fast path. Each interface is
 * examined once: a veth that later becomes the port of a bridge stays included, which is harmless. If there
 * are too many, hardware and the interfaces of networks come before those of single pods, because every
 * connection to another node passes one of them.
 */
export function interfaceReader({ files, settings }: Pick<FeatureHost, "files" | "settings">) {
  const { fastPathInterfaces: patterns = [] } = settings as FastPathSettings;
  let known = new Map<string, boolean>();
  return async () => {
    const names = await interfaceNames(files);
    const next = new Map<string, boolean>();
    for (const name of names) next.set(name, known.get(name) ?? (await isWanted(files, name, patterns)));
    known = next;
    return await limited(files, names.filter((name) => next.get(name)).sort());
  };
}

/** @param names sorted */
async function limited(files: HostFiles, names: readonly string[]) {
  if (names.length <= MOST_DEVICES) return { devices: names, excluded: [] };
  const ofNetworks = await networkInterfaces(files);
  // Only a physical interface or one of a virtual machine has this file. Policy routing may have its routes
  // in another table.
  const isHardware = (name: string) => exists(files, `/sys/class/net/${name}/device/uevent`);
  const isShared = async (name: string) => ofNetworks.has(name) || (await isHardware(name));
  const shared = await Promise.all(names.map(isShared));
  const ordered = [...names.filter((_, at) => shared[at]), ...names.filter((_, at) => !shared[at])];
  return { devices: ordered.slice(0, MOST_DEVICES).sort(), excluded: ordered.slice(MOST_DEVICES).sort() };
}

async function isWanted(files: HostFiles, name: string, patterns: readonly string[]): Promise<boolean> {
  if (name === "lo") return false;
  if (patterns.length > 0) return patterns.some((pattern) => matchesPattern(name, pattern));
  const folder = `/sys/class/net/${name}`;
  // Missing if /sys belongs to another network namespace.
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
