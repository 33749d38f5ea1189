import { AppError } from "../base/errors.ts";
import type { ProgramEnd } from "./process.ts";
import { type OpenProgram, openProgram } from "./stream-lines.ts";

const SOCAT = "socat";

/** AF_NETLINK, SOCK_RAW and NETLINK_NETFILTER. */
const NETFILTER = "16:3:12";

/** The bit of NFNLGRP_NFTABLES, the group to which the kernel sends what changes in nftables. */
const NFTABLES_GROUP = 1 << (7 - 1);

/** SOL_SOCKET and SO_RCVBUFFORCE, which net.core.rmem_max does not limit. It needs CAP_NET_ADMIN on the host. */
const FORCED_BUFFER = "1:33";

/**
 * The most that socat reads at once, bytes, and so the longest message. The kernel puts at most 32 KB of a dump into one
 * (netlink_dump in net/netlink/af_netlink.c) and one page of notifications.
 */
const BLOCK = 65_536;

/** How a netlink socket is made. */
export interface SocketOptions {
  /** Whether the kernel's notifications about nftables arrive there, too. */
  readonly notifications: boolean;
  /** The size of the kernel's buffer of what is not read yet, bytes; the kernel's own when absent. */
  readonly buffer?: { readonly bytes: number; readonly isForced: boolean };
}

/**
 * Opens a netlink socket to nftables by socat (Debian's package of that name, 4.6 MB resident): it sends what is written
 * to it to the kernel, and prints what the kernel sends. It ends when its input ends, as when this process is killed.
 * @param path path or name of socat
 */
export function openSocket(path: string = SOCAT, { notifications, buffer }: SocketOptions): OpenProgram {
  const options = [
    ...(notifications ? [`bind=${address(NFTABLES_GROUP)}`] : []),
    ...(buffer === undefined ? [] : [bufferOption(buffer)]),
  ];
  const socket = [`SOCKET-DATAGRAM:${NETFILTER}:${address(0)}`, ...options].join(",");
  // With warnings, and without a pause before its end.
  return openProgram(path, ["-d", "-t", "0", "-b", String(BLOCK), "STDIO", socket]);
}

function bufferOption({ bytes, isForced }: NonNullable<SocketOptions["buffer"]>): string {
  return isForced ? `setsockopt-int=${FORCED_BUFFER}:${bytes}` : `rcvbuf=${bytes}`;
}

/**
 * A `struct sockaddr_nl` behind its family, in the host's byte order: padding, a port id that the kernel chooses, and the
 * groups. As the address to send to it is the kernel's.
 */
function address(groups: number): string {
  return `x${"0".repeat(12)}${Buffer.from(Uint32Array.of(groups).buffer).toString("hex")}`;
}

/** Why socat ended, or could not be started. */
export function socketFailure(
  path: string = SOCAT,
  { startError, stderr, exitCode, signal }: ProgramEnd,
): AppError {
  if (startError !== undefined) {
    const hint =
      "install the package socat: without it, nft reads our tables, which takes it memory and time";
    return new AppError("HOST", `cannot start ${path} (${startError})`, { hint });
  }
  const evidence = { stderr: stderr.trim() };
  // Its input stays open, so that it ends with 0 only for an error of the socket, of which socat 1.8 says nothing.
  if (exitCode === 0) {
    return new AppError("HOST", "messages of nftables were lost: the kernel's buffer was full", { evidence });
  }
  const reason = signal === undefined ? `exit code ${exitCode}` : `ended by ${signal}`;
  return new AppError("HOST", `${path}, by which nftables is read, ended: ${stderr.trim() || reason}`, {
    evidence,
  });
}
