import { ageText } from "../../base/duration.ts";
import { counted, socketText } from "../../base/text.ts";
import { RESULTS } from "../../inspect/explain/words.ts";
import type { RefusedClient, RefusedDestination } from "../../inspect/refusals/refused-destinations.ts";
import { printable, wrapped } from "./style.ts";

/** The most clients of a destination that are named. */
const MOST_CLIENTS = 10;

/** The age of a time in RFC 3339. */
type AgeOf = (time: string) => string;

/** The times of a client or a destination, in words. */
type TimesOf = (times: Pick<RefusedClient, "firstAt" | "lastAt">) => string;

/** What the text depends on, beside the refusals. */
export interface RefusalsTextOptions {
  /** Whether a daemon knows when refusals began; without one, nobody does. */
  readonly isWatched: boolean;
  /** Whether only some refusals were asked for. */
  readonly isFiltered?: boolean;
}

/**
 * The refusals for people: a block for each destination. Ends with a line feed.
 * @param now wall clock, milliseconds
 */
export function refusalsText(
  destinations: readonly RefusedDestination[],
  now: number,
  { isWatched, isFiltered = false }: RefusalsTextOptions,
): string {
  if (destinations.length === 0)
    return `${isFiltered ? "no matching refusal" : "nothing was refused"} within the last hour\n`;
  const ageOf: AgeOf = (time) => `${ageText((now - Date.parse(time)) / 1000)} ago`;
  const timesOf: TimesOf = (times) => `${isWatched ? `${firstText(times, ageOf)}, ` : ""}last ${ageOf(times.lastAt)}`;
  return `${destinations.map((one) => destinationLines(one, timesOf).map(printable).join("\n")).join("\n\n")}\n`;
}

function firstText({ firstAt }: Pick<RefusedClient, "firstAt">, ageOf: AgeOf): string {
  return firstAt === undefined ? "first unknown" : `first ${ageOf(firstAt)}`;
}

function destinationLines(destination: RefusedDestination, timesOf: TimesOf): string[] {
  const { packets, clients, message, action } = destination;
  const sum = `${counted(packets, "packet")} of ${counted(clients.length, "client")}, ${timesOf(destination)}`;
  const cause = action === undefined ? message : `${message}; ${action}`;
  return [
    `${nameOf(destination)}: ${sum}`,
    ...wrapped(`${outcomeText(destination)}: ${cause}`, "  ", "    "),
    ...clients.slice(0, MOST_CLIENTS).map((client) => `    ${clientText(client, timesOf)}`),
    ...(clients.length > MOST_CLIENTS ? [`    and ${counted(clients.length - MOST_CLIENTS, "client")} more`] : []),
  ];
}

function nameOf({ address, port, protocol, service, servicePort }: RefusedDestination): string {
  const socket = `${socketText(address, port)}/${protocol}`;
  if (service === undefined) return socket;
  return `${service}${servicePort === "" ? "" : ` port ${servicePort}`} at ${socket}`;
}

/** The kernel does not record the cause: what is told is that of now. */
function outcomeText({ now }: RefusedDestination): string {
  return now === "refused" || now === "dropped" ? RESULTS[now] : `not refused any more, ${RESULTS[now]}`;
}

function clientText(client: RefusedClient, timesOf: TimesOf): string {
  const { address, pod, packets } = client;
  return `${address}${pod === "" ? "" : ` (${pod})`}: ${counted(packets, "packet")}, ${timesOf(client)}`;
}
