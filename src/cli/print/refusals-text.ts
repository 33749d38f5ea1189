import { counted, socketText } from "../../base/text.ts";
import { RESULTS } from "../../inspect/explain/words.ts";
import type { RefusedClient, RefusedDestination } from "../../inspect/refusals/refusals.ts";
import { ageText } from "./age-text.ts";
import { printable, wrapped } from "./style.ts";

/** The most clients of a destination that are named. */
const MOST_CLIENTS = 10;

/**
 * The refusals for people: a block for each destination. Ends with a line feed.
 * @param now wall clock, milliseconds
 */
export function refusalsText(destinations: readonly RefusedDestination[], now: number): string {
  if (destinations.length === 0) return "nothing was refused within the last hour\n";
  return `${destinations.map((one) => destinationLines(one, now).map(printable).join("\n")).join("\n\n")}\n`;
}

function destinationLines(destination: RefusedDestination, now: number): string[] {
  const { packets, clients, lastAt, message, action } = destination;
  const sum = `${counted(packets, "packet")} of ${counted(clients.length, "client")}, last ${agoText(lastAt, now)}`;
  const cause = action === undefined ? message : `${message}; ${action}`;
  return [
    `${nameOf(destination)}: ${sum}`,
    ...wrapped(`${outcomeText(destination)}: ${cause}`, "  ", "    "),
    ...clients.slice(0, MOST_CLIENTS).map((client) => `    ${clientText(client, now)}`),
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

function clientText({ address, pod, packets, lastAt }: RefusedClient, now: number): string {
  return `${address}${pod === "" ? "" : ` (${pod})`}: ${counted(packets, "packet")}, last ${agoText(lastAt, now)}`;
}

function agoText(time: string, now: number): string {
  return `${ageText((now - Date.parse(time)) / 1000)} ago`;
}
