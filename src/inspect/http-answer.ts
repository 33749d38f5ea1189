import { isRecord, parsedJson } from "../base/text.ts";
/** A complete HTTP answer. */
export interface HttpAnswer {
  readonly status: number;
  readonly body: string;
}

const ANSWER_WITHIN_MS = 2000;

/** An HTTP GET of an address on this host. Rejects when there is no answer within two seconds. */
export async function getAnswer(url: string): Promise<HttpAnswer> {
  const answer = await fetch(url, { signal: AbortSignal.timeout(ANSWER_WITHIN_MS) });
  return { status: answer.status, body: await answer.text() };
}

/** The parts of a service proxy's answer to `GET /healthz` and `/livez` that are read; times are RFC 3339. */
export interface ProxyHealth {
  readonly currentTime: string;
  /** By family; older kube-proxies have none. */
  readonly status?: Readonly<Record<string, { readonly lastUpdated: string; readonly healthy?: boolean }>>;
  /** Why it is not healthy. Only nft-proxy's answer has this and the following fields. */
  readonly reasons?: readonly string[];
  /** In /livez; in the year 1 before the first verification. */
  readonly lastVerified?: string;
  readonly outOfSyncSince?: string;
  readonly quarantinedServicePorts?: number;
  /** What is wrong, in /livez. */
  readonly problems?: readonly { readonly kind: string; readonly found: string }[];
}

/** The answer of nft-proxy's /livez. */
export type OwnHealth = ProxyHealth & { readonly lastVerified: string };

/**
 * The body of a service proxy's health answer; undefined for that of another program, which may have the
 * port on any node and answer anything.
 */
export function readHealth({ body: text }: HttpAnswer): ProxyHealth | undefined {
  const body = parsedJson(text) as Partial<Record<keyof ProxyHealth, unknown>> | null | undefined;
  if (typeof body?.currentTime !== "string") return undefined;
  const { status = {}, reasons = [], problems = [], quarantinedServicePorts = 0 } = body;
  const isWhole =
    isRecord(status) &&
    Object.values(status).every(isRecord) &&
    isListOf(reasons, isText) &&
    isListOf(problems, (one) => isRecord(one) && isText(one.kind) && isText(one.found)) &&
    typeof quarantinedServicePorts === "number";
  return isWhole ? (body as ProxyHealth) : undefined;
}

function isListOf(value: unknown, isItem: (item: unknown) => boolean): boolean {
  return Array.isArray(value) && value.every(isItem);
}

function isText(value: unknown): boolean {
  return typeof value === "string";
}

/** Whether an answer is from nft-proxy's /livez: only that reports when rules were verified. */
export function isOwnLivez(health: ProxyHealth | undefined): health is OwnHealth {
  const times = [health?.currentTime, health?.lastVerified, health?.outOfSyncSince ?? health?.currentTime];
  return times.every((time) => Number.isFinite(Date.parse(String(time))));
}
