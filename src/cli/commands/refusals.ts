import { setTimeout as sleep } from "node:timers/promises";
import { FAMILIES } from "../../base/family.ts";
import { loadExplainInput } from "../../inspect/load/load-explain-input.ts";
import { explainRefusals, type RefusalFilter, type RefusedDestination } from "../../inspect/refusals/refusals.ts";
import { newRefusals } from "../../kernel/new-refusals.ts";
import { Nft } from "../../kernel/nft.ts";
import { type RefusalEntry, readRefusals } from "../../kernel/refusals.ts";
import { REFUSAL_TIMEOUT } from "../../ruleset/refusals.ts";
import { REFUSED } from "../../ruleset/sets.ts";
import { type Argv, isSet, textArgument } from "../command.ts";
import { readAddress } from "../explain-arguments.ts";
import { loadRequest, optionsBesideDaemon } from "../options.ts";
import { type CommandResult, EXIT } from "../output.ts";
import { diagnosticText, missingNodeNotices } from "../print/diagnostic-text.ts";
import { pendingNotices } from "../print/origin-text.ts";
import { outputFormat } from "../print/output-format.ts";
import type { Progress } from "../print/progress.ts";
import { refusalsText } from "../print/refusals-text.ts";
import { serviceArgument } from "../service-argument.ts";
import { untilInterrupted } from "../signals.ts";

/** Between two looks at the kernel's set, with `--watch`. */
const WATCH_MS = 2000;

/** `refusals`: the connections that this host's rules refused, and why. Changes nothing. */
export async function run(argv: Argv, progress: Progress): Promise<CommandResult> {
  const format = outputFormat(argv, ["text", "json"]);
  const filter = filterOf(argv);
  const command = await optionsBesideDaemon(argv);
  const { options, notices } = command;
  progress.step("reading the objects");
  const loaded = await loadExplainInput(loadRequest(argv, command));
  const nft = new Nft({ path: options.nftPath });
  const read = () => readRefusals(nft, FAMILIES, { set: REFUSED, timeout: REFUSAL_TIMEOUT });
  const explained = (entries: readonly RefusalEntry[], now: number) =>
    explainRefusals(entries, loaded.input, filter, now);
  const entries = await read();
  const print = format === "json" ? jsonText : refusalsText;
  const watched = format === "json" ? jsonLines : refusalsText;
  return {
    exitCode: EXIT.ok,
    output: isSet(argv, "watch")
      ? watch(entries, read, explained, watched)
      : print(explained(entries, Date.now()), Date.now()),
    notices: [
      ...notices,
      ...pendingNotices(loaded.origin),
      ...missingNodeNotices(loaded.missingNode),
      ...loaded.notices,
      ...loaded.diagnostics.map(diagnosticText),
    ],
  };
}

function filterOf(argv: Argv): RefusalFilter {
  const [namespace, service] = [textArgument(argv, "namespace"), serviceArgument(argv)];
  const client = textArgument(argv, "client");
  return {
    ...(namespace === undefined ? {} : { namespace }),
    ...(service === undefined ? {} : { service }),
    ...(client === undefined ? {} : { client: readAddress("client", client) }),
  };
}

type Explained = (entries: readonly RefusalEntry[], now: number) => readonly RefusedDestination[];
type Print = (destinations: readonly RefusedDestination[], now: number) => string;

/** What there is, then what is new at each look, until interrupted. */
async function* watch(
  first: readonly RefusalEntry[],
  read: () => Promise<readonly RefusalEntry[]>,
  explained: Explained,
  print: Print,
): AsyncIterable<string> {
  let isInterrupted = false;
  const interrupted = untilInterrupted().then(() => {
    isInterrupted = true;
  });
  yield print(explained(first, Date.now()), Date.now());
  for (let before = first; !isInterrupted; ) {
    await Promise.race([sleep(WATCH_MS), interrupted]);
    const entries = await read();
    const fresh = explained(newRefusals(before, entries), Date.now());
    if (fresh.length > 0) yield print(fresh, Date.now());
    before = entries;
  }
}

function jsonText(refusals: readonly RefusedDestination[]): string {
  return `${JSON.stringify({ refusals }, null, 2)}\n`;
}

function jsonLines(refusals: readonly RefusedDestination[]): string {
  return refusals.map((one) => `${JSON.stringify(one)}\n`).join("");
}
