import { AppError } from "../../base/errors.ts";
import type { NotUnderstood } from "../ast/any-table.ts";

/** A JSON object whose members are not known yet. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** The failure to understand something of nft's: says what it was and shows the start of it. */
export function notUnderstood(what: string, value: unknown): AppError {
  return new AppError("NFT_OUTPUT", `cannot understand ${what} in nft's JSON`, {
    hint: "a newer nft, or a change of the nft-proxy tables by hand, may have written it; a full rebuild replaces the tables",
    evidence: { json: (JSON.stringify(value) ?? "undefined").slice(0, 300) },
  });
}

/** Reads a part of a rule; one that is not understood, or has something in it that is not, is returned as such. */
export function understood<T>(value: unknown, read: () => T): T | NotUnderstood {
  try {
    return read();
  } catch (error) {
    return { notUnderstood: value, error };
  }
}

/** Takes a JSON object, or throws {@link notUnderstood}. */
export function asObject(value: unknown, what: string): JsonObject {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw notUnderstood(what, value);
  return value as JsonObject;
}

/**
 * Takes a JSON object that has no members but the named ones. A member that nobody reads could change
 * the meaning of a rule (`random` of a dnat), so it is not ignored.
 */
export function asObjectOf(value: unknown, members: readonly string[], what: string): JsonObject {
  const object = asObject(value, what);
  for (const member in object) {
    if (!members.includes(member)) throw notUnderstood(`"${member}" of ${what}`, value);
  }
  return object;
}

/** Takes an object with a single member, which is how nft tells its kinds apart: `{"jump": {...}}`. */
export function asTagged(value: unknown, what: string): readonly [kind: string, body: unknown] {
  const entries = Object.entries(asObject(value, what));
  const [first] = entries;
  if (first === undefined || entries.length > 1) throw notUnderstood(what, value);
  return first;
}

/** Takes a list, or throws {@link notUnderstood}. */
export function asList(value: unknown, what: string): readonly unknown[] {
  if (!Array.isArray(value)) throw notUnderstood(what, value);
  return value;
}

/** Takes a string, or throws {@link notUnderstood}. */
export function asText(value: unknown, what: string): string {
  if (typeof value !== "string") throw notUnderstood(what, value);
  return value;
}

/** Takes a non-negative whole number, also as text, decimal or hexadecimal: marks come both ways. */
export function asNumber(value: unknown, what: string): number {
  const number = typeof value === "string" && value !== "" ? Number(value) : value;
  if (typeof number !== "number" || !Number.isSafeInteger(number) || number < 0)
    throw notUnderstood(what, value);
  return number;
}

/** Takes strings, also a lone one: nft writes one flag as text and several as a list. Sorted. */
export function asFlags(value: unknown, what: string): readonly string[] {
  const list = typeof value === "string" ? [value] : asList(value, what);
  return list.map((flag) => asText(flag, what)).sort();
}
