import type { ByFamily } from "../base/family.ts";

/**
 * The destinations of the userspace proxy of loopback NodePorts: addresses that no machine has, so that rules of our own
 * lead these connections, and no others, by the port to the NodePort's endpoints. Like a cluster IP, they need a route:
 * the default route will do.
 * Source: RFC 7600 section 4.8 (IPv4 dummy address), RFC 9780 (dummy IPv6 prefix)
 */
export const LOOPBACK_NODEPORT_ADDRESSES: ByFamily<string> = { ip: "192.0.0.8", ip6: "100:0:0:1::1" };
