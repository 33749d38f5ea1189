/** Settings of the kernel's connection tracking; 0 leaves one as it is. */
export interface ConntrackSettings {
  /** Entries per CPU core. 0 also switches `min` off. */
  readonly maxPerCore: number;
  /** Entries at least, whatever `maxPerCore` comes to. */
  readonly min: number;
  readonly tcpEstablishedTimeoutMs: number;
  readonly tcpCloseWaitTimeoutMs: number;
  readonly udpTimeoutMs: number;
  readonly udpStreamTimeoutMs: number;
  /** Set `nf_conntrack_tcp_be_liberal`. */
  readonly tcpBeLiberal: boolean;
}
