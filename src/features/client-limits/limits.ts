import { quoted } from "../../base/text.ts";
import { wholeNumber } from "../../model/named-values.ts";
import type { Service } from "../../model/service.ts";
import type { Parsed } from "../seam/feature.ts";

/** The name of the feature. */
export const FEATURE = "client-limits";

/** The annotation of a Service that limits the concurrent connections of a client: `100`. */
export const MAX_CONNECTIONS_ANNOTATION = "nft-proxy.io/max-connections-per-client";

/** The annotation of a Service that limits the new connections of a client: `20/second burst 40`. */
export const NEW_CONNECTIONS_ANNOTATION = "nft-proxy.io/new-connections-per-client";

/** The units of a rate, and their seconds. */
const UNITS = { second: 1, minute: 60, hour: 3600 } as const;

/** The unit of a rate, by nft's name. */
export type RateUnit = keyof typeof UNITS;

/**
 * New connections of a client: a burst of at most `burst`, of which `amount` are refilled in each unit of
 * time. `amount` and `burst` are 1 to {@link MOST_RATE}.
 */
export interface ConnectionRate {
  readonly amount: number;
  readonly per: RateUnit;
  readonly burst: number;
}

/**
 * The limits of each client of a service port, over all addresses of the Service; at least one of the two.
 */
export interface ClientLimits {
  /** Concurrent connections: 1 to {@link MOST_CONCURRENT}. */
  readonly connections?: number;
  readonly rate?: ConnectionRate;
}

/** The limits of a Service's clients; undefined for none. */
export function clientLimitsOf({ features }: Pick<Service, "features">): ClientLimits | undefined {
  return features?.[FEATURE] as ClientLimits | undefined;
}

/**
 * Maximum of a limit of connections. For a new connection, the kernel examines all connections of the client
 * to the service port: 0.1 ms for 1,000, and 2.4 ms for 10,000 (6.18).
 */
const MOST_CONCURRENT = 1000;

/** Maximum of the numbers in a rate. */
const MOST_RATE = 1000;

/**
 * The rate of clients whose connections are limited without a rate. For each new connection, even a refused
 * one, the kernel examines the others. Some kernels (5.19 and newer, without a fix of late 2025) release only
 * nine refused connections of a client in each tick of their clock.
 */
export const GREATEST_RATE: ConnectionRate = { amount: MOST_RATE, per: "second", burst: MOST_RATE };

/** Maximum time until a burst is refilled, for which the kernel remembers a client. Seconds. */
const LONGEST_REFILL = 3600;

/** Parses a limit of connections. */
export function parseMaxConnections(text: string): Parsed {
  const connections = wholeNumber(text.trim());
  if (connections !== undefined && connections >= 1 && connections <= MOST_CONCURRENT)
    return { value: { connections } satisfies ClientLimits };
  return { reason: `must be a number from 1 to ${MOST_CONCURRENT}, not ${quoted(text)}` };
}

const RATE = /^(\d{1,6})\/(second|minute|hour)(?: +burst +(\d{1,6}))?$/;

/** Parses a rate of new connections. The default burst is the amount. */
export function parseNewConnections(text: string): Parsed {
  const [match, given = "", per = "second", givenBurst = given] = RATE.exec(text.trim()) ?? [];
  if (match === undefined) {
    const rule = 'must be a rate such as "20/second" or "20/minute burst 40", of second, minute or hour';
    return { reason: `${rule}, not ${quoted(text)}` };
  }
  const rate = { amount: Number(given), per: per as RateUnit, burst: Number(givenBurst) };
  const numbers = [rate.amount, rate.burst];
  if (numbers.some((number) => number < 1 || number > MOST_RATE))
    return { reason: `must have numbers from 1 to ${MOST_RATE}, not ${quoted(text)}` };
  if (refillSeconds(rate) > LONGEST_REFILL)
    return { reason: `must have a burst that is refilled within an hour, not ${quoted(text)}` };
  return { value: { rate } satisfies ClientLimits };
}

/** Time until a client without new connections may open a whole burst again. Seconds, rounded up. */
export function refillSeconds({ amount, per, burst }: ConnectionRate): number {
  return Math.ceil((burst * UNITS[per]) / amount);
}

/**
 * The number that represents a rate in the kernel, below 2^31: 14 bits of the amount, 14 of the burst, and
 * the unit.
 */
export function rateNumber({ amount, per, burst }: ConnectionRate): number {
  return (Object.keys(UNITS).indexOf(per) * 2 ** 14 + burst) * 2 ** 14 + amount;
}

/** Formats limits: `100 connections at a time and 20 new ones per second (burst 40)`. */
export function clientLimitsText({ connections, rate }: ClientLimits): string {
  const atATime = connections === undefined ? [] : [`${connections} connections at a time`];
  if (rate === undefined) return atATime.join();
  const what = connections === undefined ? "new connections" : "new ones";
  const fresh = `${rate.amount} ${what} per ${rate.per} (burst ${rate.burst})`;
  return [...atATime, fresh].join(" and ");
}
