import { AppError } from "../base/errors.ts";
import type { ProgramEnd } from "./process.ts";
import { type OpenProgram, openProgram, programError } from "./running-programs.ts";

const SOCAT = "socat";

/** AF_NETLINK and SOCK_RAW with NETLINK_NETFILTER or NETLINK_ROUTE. */
const NETFILTER = "16:3:12";
const ROUTE = "16:3:0";

/**
 * What the kernel sends notifications of: commits to nftables, changes of interfaces and addresses, or new,
 * changed and deleted entries of the conntrack table.
 */
export type Notifications = "nftables" | "host" | "flows";

/**
 * Bits of NFNLGRP_NFTABLES; of RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR and RTNLGRP_IPV6_IFADDR; of
 * NFNLGRP_CONNTRACK_NEW, _UPDATE and _DESTROY.
 */
const GROUPS: Readonly<Record<Notifications, number>> = {
  nftables: 1 << (7 - 1),
  host: 1 | (1 << (5 - 1)) | (1 << (9 - 1)),
  flows: 1 | (1 << (2 - 1)) | (1 << (3 - 1)),
};

/** SOL_SOCKET and SO_RCVBUFFORCE, which net.core.rmem_max does not limit. Needs CAP_NET_ADMIN on the host. */
const FORCED_BUFFER = "1:33";

/**
 * SOL_NETLINK and NETLINK_NO_ENOBUFS: notifications that do not fit into the buffer are dropped and counted,
 * which is no error of the socket.
 */
const DROPPING = "270:5";

/**
 * Maximum number of bytes that socat reads in one call, and therefore of a message. The kernel puts at most
 * 32 KB of a dump into one (netlink_dump in net/netlink/af_netlink.c), and one page of notifications.
 */
const BLOCK = 65_536;

/** SOL_SOCKET and SO_SNDBUFFORCE, of the socket to which socat prints. */
const FORCED_OUTPUT = "1:32";

/**
 * Bytes of printed notifications of flows that may wait to be read. The default has room for 280 of them,
 * which come within 2 ms; this for 5,000.
 */
const OUTPUT = 4 * 1024 * 1024;

/** Options of a netlink socket. */
export interface SocketOptions {
  /** The notifications that the socket also gets; none if absent. */
  readonly notifications?: Notifications;
  /** Size of the kernel's buffer of unread messages, bytes; the kernel's default if absent. */
  readonly buffer?: { readonly bytes: number; readonly isForced: boolean };
}

/**
 * Opens a netlink socket with socat (Debian package socat, 4.6 MB resident). Bytes written to it
 * go to the kernel; it prints the kernel's messages. It ends with its input, so also when this process is
 * killed.
 * @param path path or name of socat
 */
export function openSocket(path: string = SOCAT, { notifications, buffer }: SocketOptions = {}): OpenProgram {
  const gathers = notifications === "flows";
  const options = [
    ...(notifications === undefined ? [] : [`bind=${address(GROUPS[notifications])}`]),
    ...(buffer === undefined ? [] : [bufferOption(buffer)]),
    ...(gathers ? [`setsockopt-int=${DROPPING}:1`] : []),
  ];
  const protocol = notifications === "host" ? ROUTE : NETFILTER;
  const socket = [`SOCKET-DATAGRAM:${protocol}:${address(0)}`, ...options].join(",");
  const output = gathers && buffer?.isForced ? `STDIO,setsockopt-int=${FORCED_OUTPUT}:${OUTPUT}` : "STDIO";
  // -d prints warnings; -t 0 ends it without a pause.
  const args = ["-d", "-t", "0", "-b", String(BLOCK), output, socket];
  return openProgram(path, args, { readsAhead: !gathers });
}

function bufferOption({ bytes, isForced }: NonNullable<SocketOptions["buffer"]>): string {
  return isForced ? `setsockopt-int=${FORCED_BUFFER}:${bytes}` : `rcvbuf=${bytes}`;
}

/**
 * Encodes a `struct sockaddr_nl` without its family, in the host's byte order: padding, a port id chosen by
 * the kernel, and the groups. As a destination it is the kernel's address.
 */
function address(groups: number): string {
  return `x${"0".repeat(12)}${Buffer.from(Uint32Array.of(groups).buffer).toString("hex")}`;
}

/** Returns the error for a socat that ended or could not be started. */
export function socketFailure({ command }: OpenProgram, end: ProgramEnd): AppError {
  // Its input stays open, so it only exits with 0 after an error of the socket, which socat 1.8 does not
  // report.
  if (end.exitCode === 0) {
    const evidence = { stderr: end.stderr.trim() };
    return new AppError("HOST", "lost notifications of nftables: the kernel's buffer was full", { evidence });
  }
  const missing = "install the package socat, through which nft-proxy reads the kernel's tables";
  return programError(command, end, missing);
}
