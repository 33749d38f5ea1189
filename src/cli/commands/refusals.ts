import { ageText } from "../../base/duration.ts";
import { FAMILIES, FAMILY_NAMES } from "../../base/family.ts";
import { counted, listText, moreLines, socketText } from "../../base/text.ts";
import { FEATURES } from "../../features/registry.ts";
import { resultText } from "../../inspect/explain/words.ts";
import { listingNft } from "../../inspect/load/kernel-tables.ts";
import { loadExplainInput } from "../../inspect/load/load-explain-input.ts";
import {
  MOST_DESTINATIONS,
  REFUSALS,
  type RefusalFilter,
  type RefusedClient,
  type RefusedDestination,
  readSeenRefusals,
  type SeenRefusals,
} from "../../inspect/refusals/refused-destinations.ts";
import {
  type ExplainedRefusals,
  explainSeen,
  latestInput,
  watchRefusals,
} from "../../inspect/refusals/watch-refusals.ts";
import {
  addressArgument,
  emptyNamespaceNotices,
  namespaceArgument,
  outputFormat,
  refuseUnserved,
  serviceArgument,
} from "../argument-values.ts";
import { type Argv, isSet, type Reporter } from "../command.ts";
import { type CommandResult, jsonText, textsOf } from "../command-result.ts";
import { loadedNotices } from "../notices.ts";
import { requestBesideDaemon } from "../options.ts";
import { untilInterrupted } from "../signals.ts";
import { PLAIN, printable, styleFor } from "../terminal.ts";
import { adviceLines } from "./explanation-text.ts";

/** `refusals`: the connections that this host's rules refused, and why. Changes nothing. */
export async function run(argv: Argv, reporter: Reporter): Promise<CommandResult> {
  const format = outputFormat(argv, ["text", "json"]);
  const filter: RefusalFilter = {
    namespace: namespaceArgument(argv),
    service: serviceArgument(argv),
    client: addressArgument(argv, "client"),
  };
  const request = await requestBesideDaemon(argv, reporter);
  const { options, daemon } = request;
  reporter.step("reading the objects");
  // Only the objects show which Service and namespace a destination belongs to.
  const needsObjects = filter.namespace !== undefined || filter.service !== undefined;
  const loaded = await loadExplainInput(request, needsObjects ? "desired" : "live-without-objects");
  reporter.notice(loadedNotices(loaded));
  refuseUnserved(filter.service, loaded.input);
  const nft = listingNft(options.nftPath);
  const read = () => readSeenRefusals(nft, daemon);
  const first = await read();
  const present = explainSeen(first, loaded.input, filter);
  const isFiltered = Object.values(filter).some((value) => value !== undefined);
  const { columns } = styleFor(process.stdout, process.env);
  const text = (some: ExplainedRefusals) => refusalsText(some, isFiltered, columns);
  const latest = latestInput(loaded.input, request);
  const explained = async (seen: SeenRefusals) => explainSeen(seen, await latest(), filter);
  const interrupted = () => untilInterrupted().then(() => nft.stopReading());
  reporter.notice([
    ...fullRecordNotices(first.entries, REFUSALS?.sizeOf(options.settings) ?? 0),
    ...shortenedNotices(present.destinations),
    ...emptyNamespaceNotices(filter.namespace, loaded.input.cache.serviceNames()),
  ]);
  return {
    output: isSet(argv, "watch")
      ? textsOf(watchRefusals(first, read, explained, interrupted), format === "json" ? jsonLines : text)
      : format === "json"
        ? jsonText({ refusals: present.destinations })
        : text(present),
  };
}

/**
 * If the set is full, connections are still refused, but not recorded. Some of its entries may have just
 * expired.
 */
function fullRecordNotices(entries: SeenRefusals["entries"], size: number): string[] {
  const full = FAMILIES.filter((of) => entries.filter(({ family }) => family === of).length >= 0.95 * size);
  if (size === 0 || full.length === 0) return [];
  const families = listText(full.map((family) => FAMILY_NAMES[family]));
  const hint = "raise --refusal-log-size of run to record more";
  return [`warning: the record of ${families} is full (${size}): further refusals may be missing; ${hint}`];
}

function shortenedNotices({ length }: readonly RefusedDestination[]): string[] {
  if (length < MOST_DESTINATIONS) return [];
  return [
    `note: only the latest ${MOST_DESTINATIONS} destinations are shown; --namespace, --service and --client select others`,
  ];
}

function jsonLines({ destinations }: ExplainedRefusals): string {
  return destinations.map((one) => `${JSON.stringify(one)}\n`).join("");
}

/** Maximum number of clients of a destination that are named. */
const MOST_CLIENTS = 10;

/** The times of a client or a destination, as text. */
type TimesOf = (times: Pick<RefusedClient, "firstAt" | "lastAt">) => string;

/**
 * The refusals for people: a block for each destination. Ends with a line feed. When refusals began is only
 * known if a daemon watches them (`isWatched`).
 * @param isFiltered whether only some refusals were requested
 * @param columns of a line; infinite if absent
 */
export function refusalsText(
  { destinations, now, isWatched }: ExplainedRefusals,
  isFiltered = false,
  columns = PLAIN.columns,
): string {
  if (destinations.length === 0)
    return `${isFiltered ? "no matching refusal" : "nothing was refused"} within the last hour\n`;
  const ageOf = (time: string) => `${ageText((now - Date.parse(time)) / 1000)} ago`;
  const timesOf: TimesOf = ({ firstAt, lastAt }) => {
    const first = firstAt === undefined ? "first unknown" : `first ${ageOf(firstAt)}`;
    return `${isWatched ? `${first}, ` : ""}last ${ageOf(lastAt)}`;
  };
  const blocks = destinations.map((one) => destinationLines(one, timesOf, columns).map(printable).join("\n"));
  return `${blocks.join("\n\n")}\n`;
}

function destinationLines(destination: RefusedDestination, timesOf: TimesOf, columns: number): string[] {
  const { packets, clients, message } = destination;
  const sum = `${counted(packets, "packet")} of ${counted(clients.length, "client")}, ${timesOf(destination)}`;
  return [
    `${nameOf(destination)}: ${sum}`,
    ...adviceLines(`${outcomeText(destination)}: ${message}`, destination, 2, { columns }),
    ...clients.slice(0, MOST_CLIENTS).map((client) => `    ${clientText(client, timesOf)}`),
    ...moreLines(clients.length - MOST_CLIENTS).map((line) => `    ${line}`),
  ];
}

function nameOf({ address, port, protocol, service, servicePort }: RefusedDestination): string {
  const socket = `${socketText(address, port)}/${protocol}`;
  if (service === undefined) return socket;
  return `${service}${servicePort === "" ? "" : ` port ${servicePort}`} at ${socket}`;
}

/** The kernel does not record the cause; this one is computed from the current objects. */
function outcomeText({ now, cause }: RefusedDestination): string {
  if (FEATURES.some(({ name }) => now === "varies" && name === cause)) return "refused at times";
  return now === "refused" || now === "dropped" ? resultText(now) : `no longer refused, ${resultText(now)}`;
}

function clientText(client: RefusedClient, timesOf: TimesOf): string {
  const { address, pod, packets } = client;
  return `${address}${pod === "" ? "" : ` (${pod})`}: ${counted(packets, "packet")}, ${timesOf(client)}`;
}
