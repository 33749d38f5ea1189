import { oneOf } from "../../base/argument.ts";
import { FAMILIES, type Family } from "../../base/family.ts";
import { firstNames } from "../../base/text.ts";
import { rulesetOf, selectedChanges, selectedTables } from "../../inspect/dump/selection.ts";
import type { ServiceArgument } from "../../inspect/explain/query.ts";
import { type Desired, loadDesired } from "../../inspect/load/desired.ts";
import { keepParts, type LiveTables, liveTables, tablesOfHost } from "../../inspect/load/kernel-tables.ts";
import type { ServicePort } from "../../model/service-port.ts";
import type { Transaction } from "../../nft/ast/json.ts";
import type { Ruleset } from "../../nft/ast/ruleset.ts";
import { creation, type TableDelta } from "../../nft/delta.ts";
import type { ObjectChange } from "../../nft/table-objects.ts";
import { deltaText } from "../../nft/text/delta-text.ts";
import { type Comments, tableText } from "../../nft/text/table-text.ts";
import { rebuildTransaction, toTransaction } from "../../nft/transaction.ts";
import { validateTransaction } from "../../nft/transaction-text.ts";
import type { FamilyState } from "../../ruleset/family-state.ts";
import { type ElementOwners, elementOwners, type RulesetState } from "../../ruleset/ruleset-state.ts";
import { outputFormat, refuseUnserved, serviceArgument } from "../argument-values.ts";
import { type Argv, isSet, type Reporter, textArgument } from "../command.ts";
import { type CommandResult, EXIT } from "../command-result.ts";
import { hasErrors, loadedNotices, originText } from "../notices.ts";
import { requestBesideDaemon } from "../options.ts";

type Format = "json" | "nft";

/**
 * `dump`: prints both tables, one Service's part of them, or the changes that this kernel lacks; as a
 * transaction or as nft prints them. Changes nothing.
 */
export async function run(argv: Argv, reporter: Reporter): Promise<CommandResult> {
  const format = outputFormat(argv, ["json", "nft"]);
  const service = serviceArgument(argv);
  const families = familiesOf(argv);
  const request = await requestBesideDaemon(argv, reporter);
  const live = isSet(argv, "diff") ? await liveTables(request) : undefined;
  const desired = await loadDesired({ ...request, ejectsNothing: live === undefined }, live?.objects);
  reporter.notice(loadedNotices(desired));
  if (hasErrors(desired.diagnostics)) return { exitCode: EXIT.failed };
  refuseUnserved(service, desired);
  const states = families.flatMap((family) => desired.state.families[family] ?? []);
  const output =
    live === undefined
      ? tables(desired, states, service, format)
      : await changes(desired, states, service, live, format);
  // The JSON is for nft, which does not accept comments in it.
  const head =
    format === "nft" && request.daemon !== undefined ? `# desired (${originText(desired.origin)})\n` : "";
  return { output: `${head}${output}` };
}

function tables(
  { state }: Desired,
  states: readonly FamilyState[],
  service: ServiceArgument | undefined,
  format: Format,
): string {
  const selected = selectedTables(states, service);
  const ruleset = rulesetOf(selected);
  if (format === "nft") return rulesetText(ruleset, state);
  // The transaction for one Service must not flush the maps, which hold the elements of all others.
  return transactionJson(
    service === undefined
      ? rebuildTransaction(ruleset)
      : toTransaction(selected.map((table) => creation(table, "create"))),
  );
}

async function changes(
  desired: Desired,
  states: readonly FamilyState[],
  service: ServiceArgument | undefined,
  { ruleset: kernel }: LiveTables,
  format: Format,
): Promise<string> {
  const { state } = desired;
  keepParts(desired, kernel);
  const whole = rulesetOf(states.map(({ table }) => table));
  const deltas = selectedChanges(states, service, kernel, await tablesOfHost(whole));
  if (format === "nft") return changesText(deltas, state);
  // nft's JSON cannot delete objects with timeouts: see transaction-text.ts. Unused ones do no harm.
  const isSent = ({ kind, after }: ObjectChange) => kind !== "ct timeout" || after !== undefined;
  return transactionJson(
    toTransaction(deltas.map((delta) => ({ ...delta, objects: delta.objects.filter(isSent) }))),
  );
}

function familiesOf(argv: Argv): readonly Family[] {
  const text = textArgument(argv, "family");
  return text === undefined ? FAMILIES : [oneOf("--family", FAMILIES, text)];
}

/** Maximum number of owners that are named for one element; the others are counted. */
const MOST_NAMED = 3;

/** A transaction for `nft -j -f -`, checked against its schema. Ends with a line feed. */
function transactionJson(transaction: Transaction): string {
  validateTransaction(transaction);
  return `${JSON.stringify(transaction)}\n`;
}

/** Tables as nft prints them, each element with a comment that names its service ports. */
function rulesetText(ruleset: Ruleset, state: RulesetState): string {
  return Object.values(ruleset)
    .map((table) => tableText(table, commentsOf(state, table.family)))
    .join("");
}

/** Changes as nft's commands, each element with a comment that names its service ports. */
function changesText(deltas: readonly TableDelta[], state: RulesetState): string {
  if (deltas.length === 0) return "# nothing to change\n";
  return deltas.map((delta) => deltaText([delta], commentsOf(state, delta.family))).join("");
}

function commentsOf({ families }: RulesetState, family: TableDelta["family"]): Comments {
  const state = families[family];
  if (state === undefined) return {};
  const owners: ElementOwners = elementOwners(state);
  return {
    element: ({ name }, key) => ownersText(owners.ofElement(name, key)),
    chain: (name) => ownersText(owners.ofPart(name)),
  };
}

function ownersText(owners: readonly ServicePort[]): string | undefined {
  const names = owners.map(({ name }) => name);
  return names.length === 0 ? undefined : firstNames(names, MOST_NAMED);
}
