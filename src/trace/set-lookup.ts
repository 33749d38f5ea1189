import { type AddressInterval, addressNumber, parseInterval } from "../base/address-interval.ts";
import type { Family } from "../base/family.ts";
import type { AnyExpression, AnySet, KeyPart } from "../nft/ast/any-table.ts";
import { type Element, splitParts } from "../nft/elements.ts";
import { addEffect, type Branch, type Evaluated, setKey, UNKNOWN } from "./branch.ts";

/** Returns the set or map of a reference (`@endpoints`); undefined if missing or not understood. */
export function setOf({ table }: Branch, reference: AnyExpression): AnySet | undefined {
  if (typeof reference === "object" && "anonymous" in reference) return reference.anonymous;
  const set = typeof reference === "string" ? table?.sets.get(reference.slice(1)) : undefined;
  return set?.unreadable ? undefined : set;
}

/**
 * Looks up a key and records the result as an effect.
 * @returns the value ("" in a set), or undefined if missing
 */
export function lookUp(
  branch: Branch,
  reference: AnyExpression,
  key: Evaluated,
): string | undefined | typeof UNKNOWN {
  if (key === undefined) return undefined;
  const set = setOf(branch, reference);
  if (set === undefined || key === UNKNOWN) return UNKNOWN;
  const text = String(key);
  const range = endsInInterval(set, text) ? rangeAt(set, text) : undefined;
  const value = range?.value ?? elementValue(branch, set, text);
  const { name } = set.spec;
  if (name !== "") {
    addEffect(
      branch,
      value === undefined
        ? { kind: "missed", set: name, key: text }
        : { kind: "found", set: name, key: range?.key ?? text, value },
    );
  }
  return value;
}

/** Returns the value of an element ("" in a set); undefined if there is none. */
export function elementValue(branch: Branch, set: AnySet, key: string): string | undefined {
  if (set.spec.dynamic) {
    const own = branchKey(branch, set);
    const changed = `${own} ${key}`;
    if (branch.dynamicChanges.has(changed)) return branch.dynamicChanges.get(changed);
    const given = branch.evaluation.dynamicBefore.get(own);
    if (given !== undefined) return given.get(key);
  }
  if (endsInInterval(set, key)) return rangeAt(set, key)?.value;
  if (set.spec.interval) return isWithin(set, branch.evaluation.family, key) ? "" : undefined;
  return set.elements.get(key) ?? intervalValue(set, key);
}

/** Whether a map is one of ours whose keys end in an interval of ports. @param key of a packet */
function endsInInterval({ spec }: AnySet, key: string): boolean {
  return spec.interval === true && key.includes(" . ");
}

/** Finds the element whose range has the port of a key. */
function rangeAt({ elements }: AnySet, key: string): Element | undefined {
  const place = key.slice(0, key.lastIndexOf(" ") + 1);
  const port = Number(key.slice(place.length));
  for (const [range, value] of elements) {
    if (!range.startsWith(place)) continue;
    const [first = 0, last = 0] = range.slice(place.length).split("-").map(Number);
    if (first <= port && port <= last) return { key: range, value };
  }
  return undefined;
}

/** Caches intervals by elements: sets of source ranges never change once they are filled. */
const intervals = new WeakMap<AnySet["elements"], readonly AddressInterval[]>();

function isWithin({ elements }: AnySet, family: Family, address: string): boolean {
  let known = intervals.get(elements);
  if (known === undefined || known.length !== elements.size) {
    known = Array.from(elements.keys(), (key) => parseInterval(family, key));
    intervals.set(elements, known);
  }
  const number = addressNumber(family, address);
  return known.some(({ first, last }) => first <= number && number <= last);
}

/** The identity of a set in the branch's table. */
export function branchKey({ table }: Branch, { spec }: AnySet): string {
  return setKey(table?.family ?? "", table?.name ?? "", spec.name);
}

function intervalValue({ intervals = [] }: AnySet, key: string): string | undefined {
  if (intervals.length === 0) return undefined;
  const values = splitParts(key);
  return intervals.find(({ parts }) => parts.every((part, index) => includes(part, values[index] ?? "")))
    ?.value;
}

function includes(part: KeyPart, value: string): boolean {
  switch (part.kind) {
    case "exact":
      return part.text === value;
    case "addresses": {
      if (value.includes(":") !== (part.family === "ip6")) return false;
      const address = addressNumber(part.family, value);
      return part.first <= address && address <= part.last;
    }
    case "numbers":
      return part.first <= Number(value) && Number(value) <= part.last;
    case "names":
      return value.startsWith(part.prefix);
    case "any":
      return true;
  }
}
