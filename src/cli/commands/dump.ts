import { AppError } from "../../base/errors.ts";
import { FAMILIES, type Family } from "../../base/family.ts";
import { quoted } from "../../base/schema-error.ts";
import {
  rulesetOf,
  type Selection,
  selectedChanges,
  selectedTables,
  selectionOf,
} from "../../inspect/dump/selection.ts";
import { likelyService, type ServiceArgument } from "../../inspect/explain/query.ts";
import { type Desired, loadDesired } from "../../inspect/load/desired.ts";
import { keepVanished, readKernelTables, tablesOfHost } from "../../inspect/load/kernel-tables.ts";
import type { ServiceName } from "../../model/ids.ts";
import { creation } from "../../nft/delta.ts";
import { rebuildTransaction, toTransaction } from "../../nft/transaction.ts";
import { type Argv, isSet, textArgument } from "../command.ts";
import { loadRequest, optionsBesideDaemon } from "../options.ts";
import { type CommandResult, EXIT, failed } from "../output.ts";
import { diagnosticText, hasErrors } from "../print/diagnostic-text.ts";
import { changesText, rulesetText, transactionJson } from "../print/dump-text.ts";
import { originText, pendingNotices } from "../print/origin-text.ts";
import { outputFormat } from "../print/output-format.ts";
import { serviceArgument } from "../service-argument.ts";

type Format = "json" | "nft";

/**
 * `dump`: prints the transaction that makes both tables, or the tables as nft prints them; one Service's part of
 * them; or the changes that this kernel lacks. Changes nothing.
 */
export async function run(argv: Argv): Promise<CommandResult> {
  const format = outputFormat(argv, ["json", "nft"]);
  const service = serviceArgument(argv);
  const families = familiesOf(argv);
  const command = await optionsBesideDaemon(argv);
  const desired = await loadDesired(loadRequest(argv, command));
  const notices = [
    ...command.notices,
    ...desired.notices,
    ...pendingNotices(desired.origin),
    ...desired.diagnostics.map(diagnosticText),
  ];
  if (hasErrors(desired.diagnostics)) return { exitCode: EXIT.refused, notices };
  const selection = selectionOf(desired.state, families, service);
  if (selection === undefined) return failed(unknownService(service, desired.cache.serviceNames()), notices);
  const output = isSet(argv, "diff") ? await changes(desired, selection, format) : tables(desired, selection, format);
  // JSON is for nft, and takes no comment.
  const head = format === "nft" && command.daemon !== undefined ? `# desired (${originText(desired.origin)})\n` : "";
  return { exitCode: EXIT.ok, output: `${head}${output}`, notices };
}

function tables({ state }: Desired, selection: Selection, format: Format): string {
  const selected = selectedTables(state, selection);
  const ruleset = rulesetOf(selected);
  if (format === "nft") return rulesetText(ruleset, state);
  // The transaction for one Service must not flush the maps, which hold the elements of all others.
  const isWhole = selection.isWanted === undefined;
  return transactionJson(
    isWhole ? rebuildTransaction(ruleset) : toTransaction(selected.map((table) => creation(table, "create"))),
  );
}

async function changes(desired: Desired, selection: Selection, format: Format): Promise<string> {
  const { state, options } = desired;
  const kernel = await readKernelTables(options.nftPath);
  keepVanished(desired, kernel);
  const whole = rulesetOf(selectedTables(state, { families: selection.families }));
  const deltas = selectedChanges(state, selection, kernel, await tablesOfHost(whole));
  return format === "nft" ? changesText(deltas, state) : transactionJson(toTransaction(deltas));
}

function familiesOf(argv: Argv): readonly Family[] {
  const text = textArgument(argv, "family");
  if (text === undefined) return FAMILIES;
  const family = FAMILIES.find((each) => each === text);
  if (family === undefined) throw new AppError("BAD_ARGUMENT", `--family must be ip or ip6, not ${quoted(text)}`);
  return [family];
}

function unknownService(argument: ServiceArgument | undefined, names: readonly ServiceName[]): AppError {
  const { service, port } = argument ?? {};
  const name = [service, port].filter((part) => part !== undefined).join(":");
  const likely = service === undefined || names.includes(service) ? undefined : likelyService(service, names);
  return new AppError("BAD_ARGUMENT", `no rules are made for ${name}`, {
    hint:
      likely ??
      "a Service needs a cluster IP and must not be labelled for another proxy; nft-proxy explain names its ports",
  });
}
