import type { AnyExpression, AnySet, ElementUpdate } from "../nft/ast/any-table.ts";
import { addEffect, type Branch, type Evaluation } from "./branch.ts";
import { expressionValue } from "./expression-value.ts";
import { branchKey, elementValue, setOf } from "./set-lookup.ts";
import { UNKNOWN } from "./value.ts";

/** The result of a change to a set: done, the rule ends (the set is full), or it cannot be told. */
export type UpdateResult = "done" | "break" | typeof UNKNOWN;

/**
 * Runs `add`, `update` or `delete` of a dynamic set's or map's element. An existing element keeps its value, and its
 * timeout restarts. Source: net/netfilter/nft_dynset.c, Linux 6.18.
 * @param data the value of a map's element; absent in a set
 */
export function updateSet(
  evaluation: Evaluation,
  branch: Branch,
  { op, elem }: ElementUpdate,
  reference: string,
  data?: AnyExpression,
): UpdateResult {
  const set = setOf(branch, reference);
  const { val, timeout } = typeof elem === "object" && "elem" in elem ? elem.elem : { val: elem, timeout: 0 };
  const key = expressionValue(evaluation, branch, val);
  const value = data === undefined ? "" : expressionValue(evaluation, branch, data);
  if (key === undefined || value === undefined) return "break";
  if (set === undefined || key === UNKNOWN || value === UNKNOWN) return UNKNOWN;
  const text = String(key);
  if (op === "delete") return deleteElement(evaluation, branch, set, text);
  return putElement(evaluation, branch, set, text, String(value), timeout);
}

function deleteElement(evaluation: Evaluation, branch: Branch, set: AnySet, key: string): UpdateResult {
  if (elementValue(evaluation, branch, set, key) === undefined) return "done";
  addEffect(branch, { kind: "deleted", map: set.spec.name, key });
  branch.dynamic = new Map(branch.dynamic).set(`${branchKey(branch, set)} ${key}`, undefined);
  return "done";
}

function putElement(
  evaluation: Evaluation,
  branch: Branch,
  set: AnySet,
  key: string,
  value: string,
  timeout: number,
): UpdateResult {
  const map = set.spec.name;
  const known = elementValue(evaluation, branch, set, key);
  if (known === undefined && isFull(evaluation, branch, set)) {
    addEffect(branch, { kind: "full", map });
    return "break";
  }
  const { family = "ip", name = "" } = branch.table ?? {};
  const updated = { map, key, value: known ?? value, timeout: timeout || (set.spec.timeout ?? 0) };
  addEffect(branch, { kind: "updated", ...updated });
  branch.dynamic = new Map(branch.dynamic).set(`${branchKey(branch, set)} ${key}`, updated.value);
  branch.updates = [...branch.updates, { ...updated, table: { family, name } }];
  return "done";
}

/** Whether a set has no room for another element, counting the elements that this packet added and deleted. */
function isFull(evaluation: Evaluation, branch: Branch, set: AnySet): boolean {
  const { size } = set.spec;
  if (size === undefined) return false;
  const own = branchKey(branch, set);
  const before = evaluation.dynamic.get(own) ?? set.elements;
  let filling = before.size;
  for (const [changed, value] of branch.dynamic) {
    if (!changed.startsWith(`${own} `)) continue;
    filling += Number(value !== undefined) - Number(before.has(changed.slice(own.length + 1)));
  }
  return filling >= size;
}
