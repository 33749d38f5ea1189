import { AppError } from "../../base/errors.ts";
import { FAMILIES, type Family } from "../../base/family.ts";
import { isNamed, type ServiceArgument } from "../../inspect/explain/query.ts";
import type { Transaction } from "../../nft/ast/json.ts";
import type { Ruleset, Table } from "../../nft/ast/ruleset.ts";
import { creation, diffRuleset, isEmptyDelta, type TableDelta } from "../../nft/delta.ts";
import { selectElements } from "../../nft/select.ts";
import { rebuildTransaction, toTransaction } from "../../nft/transaction.ts";
import { validateTransaction } from "../../nft/validate.ts";
import { elementOwners } from "../../ruleset/element-owners.ts";
import type { RulesetState } from "../../ruleset/ruleset-state.ts";
import { type Argv, isSet, textArgument } from "../command.ts";
import { type Desired, loadDesired } from "../desired.ts";
import { kernelNow, ofThisHost } from "../kernel-now.ts";
import { type CommandResult, EXIT } from "../output.ts";
import { diagnosticText, hasErrors } from "../print/diagnostic-text.ts";
import { changesText, rulesetText } from "../print/dump-text.ts";
import { outputFormat } from "../print/output-format.ts";
import { serviceArgument } from "../service-argument.ts";

/**
 * `dump`: prints the transaction that makes both tables whole, or the tables as nft prints them; a Service's part of
 * them, or what would have to change in this kernel. Changes nothing.
 */
export async function run(argv: Argv): Promise<CommandResult> {
  const format = outputFormat(argv, ["json", "nft"], "format");
  const service = serviceArgument(argv);
  const families = familiesOf(argv);
  const desired = await loadDesired(argv);
  const { state, problems, notices } = desired;
  const said = [...notices, ...problems.map(diagnosticText)];
  if (hasErrors(problems)) return { exitCode: EXIT.refused, notices: said };
  const wanted = wantedBy(state, service);
  if (service !== undefined && wanted === undefined) throw unknownService(service);
  const print = isSet(argv, "diff") ? await changes(desired, families, wanted) : whole(desired, families, wanted);
  return { exitCode: EXIT.ok, output: print[format](), notices: said };
}

/** How to print what was asked for, by format. */
type Print = Readonly<Record<"json" | "nft", () => string>>;

/** Whether an element belongs to what was named. */
type IsWanted = (family: Family, set: string, key: string) => boolean;

function whole({ state }: Desired, families: readonly Family[], wanted: IsWanted | undefined): Print {
  const tables = tablesOf(state, families, wanted);
  const ruleset = rulesetOf(tables);
  // Of one Service alone, the transaction must not empty the maps: they are all the others', too.
  const transaction = () =>
    wanted === undefined
      ? rebuildTransaction(ruleset)
      : toTransaction(tables.map((table) => creation(table, "create")));
  return { json: () => jsonText(transaction()), nft: () => rulesetText(ruleset, state) };
}

/** The tables, or what of them the elements asked for need. */
function tablesOf(
  { families: states }: RulesetState,
  families: readonly Family[],
  wanted: IsWanted | undefined,
): Table[] {
  const tables = families.flatMap((family) => states[family]?.table ?? []);
  if (wanted === undefined) return tables;
  return tables
    .map((table) => selectElements(table, (set, key) => wanted(table.family, set, key)))
    .filter(({ sets }) => sets.size > 0);
}

function rulesetOf(tables: readonly Table[]): Ruleset {
  return Object.fromEntries(tables.map((table) => [table.family, table]));
}

async function changes(
  { state, options }: Desired,
  families: readonly Family[],
  wanted: IsWanted | undefined,
): Promise<Print> {
  const kernel = await kernelNow(options);
  const deltas = diffRuleset(kernel, await ofThisHost(rulesetOf(tablesOf(state, families, undefined))));
  const selected = tablesOf(state, families, wanted);
  const asked = wanted === undefined ? deltas : deltas.flatMap((delta) => restricted(delta, selected, wanted));
  return {
    json: () => jsonText(toTransaction(asked)),
    nft: () => (asked.length === 0 ? "# nothing to change\n" : changesText(asked, state)),
  };
}

/** What of a change the elements asked for need: nothing is taken away that others may use. */
function restricted(delta: TableDelta, selected: readonly Table[], wanted: IsWanted): TableDelta[] {
  const table = selected.find(({ family }) => family === delta.family);
  if (table === undefined) return [];
  if (delta.mode !== "change") return [creation(table, delta.mode)];
  const isOurs = (set: string) => (key: string) => wanted(delta.family, set, key);
  const rest: TableDelta = {
    ...delta,
    addedSets: delta.addedSets.filter(({ name }) => table.sets.has(name)),
    writtenChains: delta.writtenChains.filter(({ name }) => table.chains.has(name)),
    deletedSets: [],
    deletedChains: [],
    elements: delta.elements.flatMap(({ spec, deleted, added }) => {
      const isWanted = isOurs(spec.name);
      const kept = { spec, deleted: deleted.filter(isWanted), added: added.filter(({ key }) => isWanted(key)) };
      return kept.deleted.length + kept.added.length === 0 ? [] : [kept];
    }),
  };
  return isEmptyDelta(rest) ? [] : [rest];
}

/** Tells the elements of the service ports that are named; undefined when none are, or all are wanted. */
function wantedBy({ families }: RulesetState, service: ServiceArgument | undefined): IsWanted | undefined {
  if (service === undefined) return undefined;
  const states = Object.values(families);
  const isThere = states.some((state) => [...state.allServicePortRules()].some(({ port }) => isNamed(port, service)));
  if (!isThere) return undefined;
  const owners = Object.fromEntries(states.map((state) => [state.table.family, elementOwners(state)]));
  return (family, set, key) => owners[family]?.ofElement(set, key).some((port) => isNamed(port, service)) ?? false;
}

function familiesOf(argv: Argv): readonly Family[] {
  const text = textArgument(argv, "family");
  if (text === undefined) return FAMILIES;
  const family = FAMILIES.find((each) => each === text);
  if (family === undefined)
    throw new AppError("BAD_ARGUMENT", `--family must be ip or ip6, not ${JSON.stringify(text)}`);
  return [family];
}

function unknownService({ service, port }: ServiceArgument): AppError {
  const name = port === undefined ? service : `${service}:${port}`;
  return new AppError("BAD_ARGUMENT", `no rules are made for ${name}`, {
    hint: "a Service needs a cluster IP and must not be left to another proxy; look at its name, namespace and ports",
  });
}

function jsonText(transaction: Transaction): string {
  validateTransaction(transaction);
  return `${JSON.stringify(transaction)}\n`;
}
