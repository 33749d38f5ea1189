import { badArgument } from "../../base/errors.ts";
import { oncePerObject } from "../../base/once-per-object.ts";
import { escapeUnprintable, quoted } from "../../base/text.ts";
import type {
  CommandHost,
  CommandObjects,
  CommandSubject,
  FeatureCommand,
} from "../../features/seam/command.ts";
import type { ExplainInput } from "../../inspect/explain/explain-input.ts";
import { isNamed, type ServiceArgument } from "../../inspect/explain/query.ts";
import { listingNft } from "../../inspect/load/kernel-tables.ts";
import { loadExplainInput } from "../../inspect/load/load-explain-input.ts";
import { readSeenRefusals, type SeenRefusals } from "../../inspect/refusals/refused-destinations.ts";
import { explainSeen, latestInput, watchRefusals } from "../../inspect/refusals/watch-refusals.ts";
import { conntrackTable } from "../../kernel/conntrack.ts";
import { flowListener } from "../../kernel/flow-listener.ts";
import { hostFiles } from "../../kernel/host.ts";
import { systemClock } from "../../kernel/system-clock.ts";
import { namespaceOf } from "../../model/ids.ts";
import {
  addressOf,
  emptyNamespaceNotices,
  namespaceArgument,
  outputFormat,
  parseService,
  refuseUnserved,
} from "../argument-values.ts";
import { type Argv, FEATURE_ARGUMENT, isSet, type RunCommand, textArgument } from "../command.ts";
import { textsOf } from "../command-result.ts";
import { loadedNotices } from "../notices.ts";
import { requestBesideDaemon } from "../options.ts";
import { untilInterrupted } from "../signals.ts";
import { printable } from "../terminal.ts";

/** Returns the function that runs a command of a feature. */
export function runnerOf({ formats, run }: FeatureCommand): RunCommand {
  return async (argv, reporter) => {
    const format = outputFormat(argv, formats);
    const selected = selectionOf(argv);
    const request = await requestBesideDaemon(argv, reporter);
    reporter.step("reading the objects");
    const loaded = await loadExplainInput(request, "desired");
    reporter.notice(loadedNotices(loaded));
    refuseUnserved(selected.service, loaded.input);
    const latest = latestInput(loaded.input, request);
    const nft = listingNft(request.options.nftPath);
    const read = async () => refusalsAt(selected.address, await readSeenRefusals(nft, request.daemon));
    const explained = async (seen: SeenRefusals) => explainSeen(seen, await latest(), selected);
    const host: CommandHost = {
      clock: systemClock,
      files: hostFiles,
      flows: conntrackTable(systemClock),
      listenToFlows: flowListener(systemClock, hostFiles),
      format,
      isSet: (flag) => isSet(argv, flag),
      text: (flag) => textArgument(argv, flag),
      subject: subjectOf(selected),
      objects: async () => objectsOf(await latest()),
      refusals: async function* (stop) {
        const first = await read();
        const stopped = () => stop.then(() => nft.stopReading());
        for await (const { destinations } of watchRefusals(first, read, explained, stopped))
          yield destinations;
      },
      interrupted: untilInterrupted,
    };
    const { lines, notices } = await run(host);
    const names = loaded.input.cache.serviceNames();
    reporter.notice([...emptyNamespaceNotices(selected.namespace, names), ...notices]);
    const safe = format === "json" ? escapeUnprintable : printable;
    return { output: textsOf(lines, (line) => `${safe(line)}\n`) };
  };
}

/** What the arguments select. */
interface Selection {
  readonly address?: string;
  readonly service?: ServiceArgument;
  /** Without a Service, all of its Services. */
  readonly namespace?: string | undefined;
}

/** @throws AppError BAD_ARGUMENT */
function selectionOf(argv: Argv): Selection {
  const [text, namespace] = [textArgument(argv, FEATURE_ARGUMENT), namespaceArgument(argv)];
  if (text === undefined) return { namespace };
  const address = addressOf(text);
  if (address !== undefined) return { address };
  const service = parseService(text, namespace);
  if (service !== undefined) return { service };
  throw badArgument(`the argument must be SERVICE[:PORT] or ADDRESS, not ${quoted(text)}`);
}

function subjectOf({ address, service, namespace }: Selection): CommandSubject {
  if (address !== undefined) return { address };
  if (service !== undefined) return { isMeant: (port) => isNamed(port, service) };
  if (namespace === undefined) return {};
  return { isMeant: (port) => namespaceOf(port.service.name) === namespace };
}

/** The refusals of a client or a destination with an address. */
function refusalsAt(address: string | undefined, seen: SeenRefusals): SeenRefusals {
  if (address === undefined) return seen;
  const entries = seen.entries.filter((entry) => entry.client === address || entry.address === address);
  return { ...seen, entries };
}

const objectsOf = oncePerObject(({ cache, state, host }: ExplainInput): CommandObjects => {
  return { cache, state, localAddresses: host.localAddresses };
});
