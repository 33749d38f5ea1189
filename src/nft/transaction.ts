import type { Family } from "../base/family.ts";
import type { Command, CommandObject, Transaction, TypeJson } from "./ast/json.ts";
import { type Ruleset, type SetSpec, TABLE_NAME, type Table } from "./ast/ruleset.ts";
import {
  commandsOf,
  endingDeletions,
  type ObjectCommand,
  onObject,
  ruleCommands,
  type TableCommand,
} from "./commands.ts";
import { declaringExpression } from "./data-types.ts";
import { creation, type TableDelta } from "./delta.ts";
import { type Element, elementJson, keyJson } from "./elements.ts";
import type { ObjectKind, ObjectKinds } from "./table-objects.ts";

/** Writes deltas as one transaction. */
export function toTransaction(deltas: readonly TableDelta[]): Transaction {
  return { nftables: deltas.flatMap((delta) => jsonOf(delta, commandsOf(delta))) };
}

/**
 * Deletes elements that packets have added to a dynamic map, whether or not they have expired. The kernel
 * refuses this if the value of one of them has changed meanwhile.
 */
export function deletionTransaction(
  family: Family,
  spec: SetSpec,
  elements: readonly Element[],
): Transaction {
  return { nftables: jsonOf({ family, table: TABLE_NAME }, endingDeletions(spec, elements)) };
}

/**
 * A transaction that restores both tables regardless of their contents, and keeps the contents of dynamic
 * maps: it declares, empties and fills each of our chains and sets. `dump` prints it, and it is sent if the
 * kernel's tables cannot be read.
 */
export function rebuildTransaction(desired: Ruleset): Transaction {
  const deltas = Object.values(desired).map((table) => creation(table, "create"));
  return { nftables: deltas.flatMap((delta) => jsonOf(delta, commandsOf(delta, true))) };
}

/**
 * A transaction that removes our tables. nft has no `destroy` before 1.0.8, so each is added before it is
 * deleted.
 */
export function removalTransaction(
  tables: readonly { readonly family: Family; readonly name: string }[],
): Transaction {
  return { nftables: tables.flatMap((table) => [{ add: { table } }, { delete: { table } }]) };
}

function jsonOf(place: Place, commands: readonly TableCommand[]): Command[] {
  return commands.map((command) => ({ [command.verb]: commandObject(place, command) }) as unknown as Command);
}

/** The table that commands are for. */
type Place = Pick<TableDelta, "family" | "table">;

function commandObject({ family, table }: Place, command: TableCommand): CommandObject {
  switch (command.kind) {
    case "table":
      return { table: { family, name: table } };
    case "rule":
      return { rule: { family, table, chain: command.chain, expr: command.rule } };
    case "element": {
      const { verb, spec, elements } = command;
      const elem = elements.map((one) => (verb === "add" ? elementJson(spec, one) : keyJson(spec, one.key)));
      return { element: { family, table, name: spec.name, elem } };
    }
    default:
      return namedObject({ family, table }, command);
  }
}

/** Declares an object, or refers to it. */
function namedObject<Kind extends ObjectKind>(
  { family, table }: Place,
  { verb, kind, object }: ObjectCommand<Kind>,
): CommandObject {
  const isMap = "value" in object && object.value !== undefined;
  const declared = verb === "add" ? DECLARED[kind](object) : isMap ? { map: VERDICT_TYPE } : {};
  const named = { family, table, name: object.name, ...declared };
  return { [isMap ? "map" : kind]: named } as unknown as CommandObject;
}

/** What nft has to know of new objects besides their names. */
const DECLARED: { readonly [Kind in ObjectKind]: (object: ObjectKinds[Kind]) => object } = {
  set: (spec) => ({
    type: { typeof: declaringExpression(spec.key, "key") },
    ...flagsOf(spec),
    ...(spec.size === undefined ? {} : { size: spec.size }),
    ...(spec.timeout === undefined ? {} : { timeout: spec.timeout }),
    ...(spec.counter ? { stmt: [{ counter: null }] } : {}),
    ...(spec.value !== undefined && {
      map: spec.value === "verdict" ? VERDICT_TYPE : { typeof: declaringExpression(spec.value, "value") },
    }),
  }),
  flowtable: ({ hook, prio }) => ({ hook, prio }),
  "ct timeout": ({ protocol, policy }) => ({ protocol, policy }),
  chain: ({ base = {} }) => base,
};

function flagsOf({ dynamic, untimed, timeout, interval }: SetSpec): { readonly flags?: readonly string[] } {
  if (dynamic) return { flags: untimed ? ["dynamic"] : ["dynamic", "timeout"] };
  if (interval) return { flags: ["interval"] };
  return timeout === undefined ? {} : { flags: ["timeout"] };
}

/** Plain `"verdict"` makes nft 1.0.6 crash when it lists the map, as names of types do: see data-types.ts. */
const VERDICT_TYPE: TypeJson = { typeof: { accept: null } };

/**
 * Adds devices to the flow table of a table, in addition to its current ones.
 * @param devices names of network interfaces; kernels before 6.16 refuse a missing one
 */
export function flowtableAddition({ family, name, flowtable }: Table, devices: readonly string[]): Command[] {
  if (flowtable === undefined || devices.length === 0) return [];
  return [{ add: { flowtable: { family, table: name, ...flowtable, dev: devices } } }];
}

/**
 * Recreates the flow table of a table with other devices, because nft's JSON cannot remove devices (1.1.3).
 * All connections leave it and return with their next packet.
 */
export function flowtableReplacement(table: Table, devices: readonly string[]): Command[] {
  const { family, name, flowtable, chains } = table;
  if (flowtable === undefined) return [];
  const users = [...chains.values()].filter(({ rules: of }) =>
    of.some((rule) => rule.some((one) => "flow" in one)),
  );
  const place = { family, table: name };
  return [
    ...jsonOf(place, [
      ...users.map((chain) => onObject("flush", "chain", chain)),
      onObject("delete", "flowtable", flowtable),
    ]),
    { add: { flowtable: { ...place, ...flowtable, ...(devices.length > 0 && { dev: devices }) } } },
    ...jsonOf(place, users.flatMap(ruleCommands)),
  ];
}
