/** Settings of the kernel's connection tracking; 0 leaves a setting unchanged. */
export interface ConntrackSettings {
  /** Entries per CPU core. 0 also disables `min`. */
  readonly maxPerCore: number;
  /** Minimum number of entries, regardless of `maxPerCore`. */
  readonly min: number;
  readonly tcpEstablishedTimeoutMs: number;
  readonly tcpCloseWaitTimeoutMs: number;
  readonly udpTimeoutMs: number;
  readonly udpStreamTimeoutMs: number;
  /** Set `nf_conntrack_tcp_be_liberal`. */
  readonly tcpBeLiberal: boolean;
}
