const DEFAULTS: Readonly<Record<string, Readonly<Record<string, number>>>> = {
  tcp: {
    syn_sent: 120,
    syn_recv: 60,
    established: 432_000,
    fin_wait: 120,
    close_wait: 60,
    last_ack: 30,
    time_wait: 120,
    close: 10,
    retrans: 300,
    unack: 300,
  },
  udp: { unreplied: 30, replied: 120 },
};

/**
 * The kernel's default timeouts of a protocol's connections in seconds, by nft's names of conntrack's states.
 * nft has the same ones (1.1.3 and 1.1.7): it sends them for states that a policy does not name, and does not
 * list them. Source: nf_conntrack_proto_tcp.c and _udp.c, Linux 6.18.
 */
export function conntrackDefaults(protocol: string): Readonly<Record<string, number>> {
  return DEFAULTS[protocol] ?? {};
}
