/** The answer of a health endpoint. */
export interface HealthAnswer {
  readonly status: number;
  readonly body: string;
}

/** The parts of a service proxy's health answer that are read; times are RFC 3339. */
export interface HealthBody {
  readonly currentTime: string;
  /** By family; older kube-proxies have none. */
  readonly status?: Readonly<Record<string, { readonly lastUpdated: string }>>;
  /** nft-proxy's alone. */
  readonly reasons?: readonly string[];
  /** nft-proxy's alone, in /livez. */
  readonly lastVerified?: string;
}

/** The body of a service proxy's health answer; undefined for that of another program. */
export function readHealth({ body: text }: HealthAnswer): HealthBody | undefined {
  try {
    const body = JSON.parse(text) as Partial<HealthBody> | null;
    return typeof body?.currentTime === "string" ? (body as HealthBody) : undefined;
  } catch {
    return undefined;
  }
}

/** `last synced 12 s ago`, of the family that was synced first; families that are not served have never been. */
export function lastSyncText({ currentTime, status = {} }: HealthBody): string {
  const times = Object.values(status).map(({ lastUpdated }) => Date.parse(lastUpdated));
  // Go's zero time, for never.
  const synced = times.filter((time) => time > 0);
  if (synced.length === 0) return "has not synced yet";
  return `last synced ${Math.max(0, Math.round((Date.parse(currentTime) - Math.min(...synced)) / 1000))} s ago`;
}
