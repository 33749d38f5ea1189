import { AppError } from "../../base/errors.ts";
import type { NotUnderstood } from "../ast/any-table.ts";

/** A JSON object with unknown members. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** The error for output of nft that is not understood, with its kind and its beginning. */
export function notUnderstood(what: string, value: unknown): AppError {
  return new AppError("NFT_OUTPUT", `cannot understand ${what} in nft's JSON`, {
    hint: "a newer nft or a manual change of the nft-proxy tables may have written it; a full rebuild replaces the tables",
    evidence: { json: (JSON.stringify(value) ?? "undefined").slice(0, 300) },
  });
}

/** Reads a part of a rule. Returns it as such if it, or something in it, is not understood. */
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
 * Takes a JSON object with only the named members. Others are errors, as they could change the meaning of a
 * rule (`random` of a dnat).
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

/** Takes a non-negative integer, also as decimal or hexadecimal text: marks come in both forms. */
export function asNumber(value: unknown, what: string): number {
  const number = typeof value === "string" && value !== "" ? Number(value) : value;
  if (typeof number !== "number" || !Number.isSafeInteger(number) || number < 0)
    throw notUnderstood(what, value);
  return number;
}

/** Takes one or more strings and sorts them: nft writes one flag as text and several as a list. */
export function asFlags(value: unknown, what: string): readonly string[] {
  const list = typeof value === "string" ? [value] : asList(value, what);
  return list.map((flag) => asText(flag, what)).sort();
}
