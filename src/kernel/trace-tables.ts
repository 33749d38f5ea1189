import { existsSync, readlinkSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import type { Family } from "../base/family.ts";
import { listedObjects } from "../nft/canonical/parse.ts";
import { removalTransaction } from "../nft/transaction.ts";
import type { HostFiles } from "./host.ts";
import type { Nft } from "./nft.ts";
import { tableNames } from "./nft-listings.ts";
import { endOrphans } from "./running-programs.ts";

/**
 * Set in the table of a trace that enables it: protocols, which the kernel removes when the time of the trace
 * is up.
 */
export const ACTIVE_SET = "active";

const NAME = /^(ip6?) (nft-proxy-trace-(\d+)-(\d+))$/;

/** Name of this process's table for tracing: the pid namespace and the process id. */
export function traceTableName(): string {
  return `nft-proxy-trace-${pidNamespace()}-${process.pid}`;
}

/** Source: namespaces(7). */
function pidNamespace(): string {
  return /\d+/.exec(readlinkSync("/proc/self/ns/pid"))?.[0] ?? "0";
}

/**
 * Removes the tables of traces whose process was killed, and ends their monitors. This process is gone or, if
 * its id belongs to another container, the time of the trace is up.
 * @returns the number of removed tables
 * @throws AppError as nft does
 */
export async function removeStaleTraceTables(nft: Nft): Promise<number> {
  const own = pidNamespace();
  const stale: { family: Family; name: string }[] = [];
  for (const listed of await tableNames(nft)) {
    const [, family, name, namespace, pid] = NAME.exec(listed) ?? [];
    if (name === undefined) continue;
    const table = { family: family as Family, name };
    const isAlive = namespace === own ? existsSync(`/proc/${pid}`) : await isActive(nft, table);
    if (!isAlive) stale.push(table);
  }
  if (stale.length > 0) {
    await nft.apply(removalTransaction(stale));
    endOrphans();
  }
  return stale.length;
}

async function isActive(nft: Nft, { family, name }: { family: Family; name: string }): Promise<boolean> {
  const text = await nft.list(["-j", "list", "set", family, name, ACTIVE_SET]);
  const objects = text === undefined ? [] : listedObjects(text);
  return objects.some(({ kind, body }) => kind === "set" && body.elem !== undefined);
}

/**
 * Interval and number of checks for a monitor, which first reads all rules of the host: 3 s at 100,000
 * elements.
 */
const CHECK_MS = 20;
const PATIENCE_MS = 60_000;

/**
 * Waits until a process listens to nftables' notifications. Also returns when the process has ended, or after
 * a minute. Source of the columns: net/netlink/af_netlink.c, netlink_native_seq_show; protocol 12 is
 * NETLINK_NETFILTER.
 */
export async function untilListening(files: HostFiles, pid: number): Promise<void> {
  const socket = new RegExp(`^\\S+ +12 +${pid} +(?!0{8} )[0-9a-f]{8} `, "m");
  for (let waited = 0; waited < PATIENCE_MS && existsSync(`/proc/${pid}`); waited += CHECK_MS) {
    if (socket.test(await files.read("/proc/net/netlink").catch(() => ""))) return;
    await sleep(CHECK_MS);
  }
}
