import type { V1ObjectMeta } from "@kubernetes/client-node";
import { type ByFamily, byFamily } from "../../base/family.ts";
import { joinPath } from "../../base/schema-error.ts";
import { counted, quoted } from "../../base/text.ts";
import type { Protocol } from "../../model/ids.ts";
import { canonicalAddress, canonicalCidr, familyOf } from "../../model/ip.ts";
import type { DiagnosticCode } from "./diagnostic-code.ts";

/** A diagnostic about a field of an object. */
export interface FieldDiagnostic {
  readonly code: DiagnosticCode;
  /** The field's path, such as `spec.ports[0].port`; "" for the whole object. */
  readonly path: string;
  /** The reason, as the predicate of a sentence about the field: `must be a CIDR`. */
  readonly reason: string;
  /** An error marks a value that the API server would reject; a warning, a value that has no effect. */
  readonly severity: "error" | "warning";
}

/** Returns an error about the field at `path`; `reason` as in {@link FieldDiagnostic}. */
export function fieldError(code: DiagnosticCode, path: string, reason: string): FieldDiagnostic {
  return { code, path, reason, severity: "error" };
}

/** As {@link fieldError}, with the severity warning. */
export function fieldWarning(code: DiagnosticCode, path: string, reason: string): FieldDiagnostic {
  return { code, path, reason, severity: "warning" };
}

/** The part of an invalid object that has the right types. */
export interface UsablePart {
  /**
   * A copy of the object without its invalid values. An array without an invalid item has a hole in its
   * place.
   */
  readonly value: unknown;
  /** The paths of the omitted values. */
  readonly omitted: readonly string[];
}

/** Returns true for the hole that an invalid item leaves in an array of a {@link UsablePart}. */
export function isOmitted(item: unknown): boolean {
  return item === undefined;
}

/** The result of decoding an API object. */
export type Decoded<T> =
  /** The object is used, without the parts that `diagnostics` name. */
  | { readonly kind: "valid"; readonly value: T; readonly diagnostics: readonly FieldDiagnostic[] }
  /** The object is well-formed, but nft-proxy does not handle it. `reason` is the predicate of a sentence. */
  | { readonly kind: "ignored"; readonly reason: string }
  /** The object cannot be used. */
  | { readonly kind: "invalid"; readonly diagnostics: readonly FieldDiagnostic[] };

/**
 * Maximum number of diagnostics reported for one object. It may have tens of thousands, and each reaches the
 * log.
 */
const MOST_DIAGNOSTICS = 20;

/**
 * Returns the first 20 diagnostics of an object, errors before warnings, and a count of the others. Up to 20
 * are unchanged.
 * @param more makes the diagnostic with the count
 */
export function bounded<T extends Pick<FieldDiagnostic, "severity">>(
  diagnostics: readonly T[],
  more: (reason: string, severity: FieldDiagnostic["severity"]) => T,
): readonly T[] {
  if (diagnostics.length <= MOST_DIAGNOSTICS) return diagnostics;
  const of = (severity: FieldDiagnostic["severity"]) =>
    diagnostics.filter((one) => one.severity === severity);
  const sorted = [...of("error"), ...of("warning")];
  const rest = sorted.slice(MOST_DIAGNOSTICS);
  const counts = (["error", "warning"] as const).flatMap((severity) => {
    const count = rest.filter((one) => one.severity === severity).length;
    return count === 0 ? [] : [more(`has ${counted(count, `more ${severity}`)}`, severity)];
  });
  return [...sorted.slice(0, MOST_DIAGNOSTICS), ...counts];
}

/** As {@link bounded}, about the whole object. */
export function boundedInObject(diagnostics: readonly FieldDiagnostic[]): readonly FieldDiagnostic[] {
  return bounded(diagnostics, (reason, severity) => ({
    code: "more-diagnostics",
    path: "",
    reason,
    severity,
  }));
}

/** An object that is used. */
export function valid<T>(value: T, diagnostics: readonly FieldDiagnostic[]): Decoded<T> {
  return { kind: "valid", value, diagnostics: boundedInObject(diagnostics) };
}

/** An object that cannot be used. */
export function invalid(diagnostics: readonly FieldDiagnostic[]): Decoded<never> {
  return { kind: "invalid", diagnostics: boundedInObject(diagnostics) };
}

/** A field that may be absent; in the API, `null` means the same. */
export type Optional<T> = T | null | undefined;

/**
 * An object as it is in JSON: any field may be absent or null, and times are text. client-node's types
 * describe objects after its own decoding.
 */
export type Raw<T> = T extends Date
  ? string
  : T extends readonly (infer Item)[]
    ? readonly Raw<Item>[]
    : T extends object
      ? { readonly [Field in keyof T]?: Optional<Raw<T[Field]>> }
      : T;

/** The `metadata` of an object. */
export type RawMetadata = Raw<V1ObjectMeta> & { readonly name: string };

/** Returns true if an object has a label, whatever its value. */
export function hasLabel({ labels }: RawMetadata, name: string): boolean {
  return Object.hasOwn(labels ?? {}, name);
}

/**
 * Parses an RFC 3339 time. Returns milliseconds since 1970, or 0 when it is absent or, with a diagnostic,
 * malformed.
 */
export function timeOf(text: Optional<string>, path: string, diagnostics: FieldDiagnostic[]): number {
  if (text === null || text === undefined || text === "") return 0;
  const time = Date.parse(text);
  if (!Number.isNaN(time)) return time;
  diagnostics.push(fieldWarning("invalid-value", path, `must be a time, not ${quoted(text)}`));
  return 0;
}

/** Returns the protocol of a port of an API object: TCP when it is absent or "". */
export function protocolOf(protocol: Optional<string>): Protocol {
  return (protocol || "TCP").toLowerCase() as Protocol;
}

/** An address or CIDR of an object, with the path of its field. */
export interface LocatedText {
  readonly text: string;
  readonly path: string;
}

/** Returns the entries of a list with their paths. */
export function located(texts: Optional<readonly string[]>, path: string): LocatedText[] {
  return (texts ?? []).map((text, index) => ({ text, path: joinPath(path, index) }));
}

/** Shared to save memory: most Services have no addresses other than their cluster IPs. */
export const NO_TEXTS: ByFamily<readonly string[]> = byFamily(() => []);

/**
 * Groups a list of addresses or CIDRs by family, without duplicates, in the given order. A diagnostic is
 * added for each entry that `read` rejects.
 */
export function textsByFamily(
  texts: readonly LocatedText[],
  read: (text: string) => string | Unusable,
  diagnostics: FieldDiagnostic[],
): ByFamily<readonly string[]> {
  if (texts.length === 0) return NO_TEXTS;
  const values = byFamily(() => new Set<string>());
  for (const { text, path } of texts) {
    const value = read(text);
    if (typeof value === "string") values[familyOf(value)].add(value);
    else diagnostics.push({ path, ...value });
  }
  return byFamily((family) => (values[family].size === 0 ? NO_TEXTS[family] : [...values[family]]));
}

/** The reason why a value is rejected. */
export type Unusable = Omit<FieldDiagnostic, "path">;

/** Parses a CIDR, for {@link textsByFamily}. Returns it in canonical form. */
export function readCidr(text: string): string | Unusable {
  const cidr = canonicalCidr(text);
  if (cidr !== undefined) return cidr;
  return { code: "invalid-cidr", reason: `must be a CIDR, not ${quoted(text)}`, severity: "error" };
}

/**
 * Parses an address, for {@link textsByFamily}. Returns it in canonical form.
 * @param isSpecial returns true for an address that is not allowed in this field
 * @param families the families that the Service has
 */
export function readAddress(
  text: string,
  isSpecial: (address: string) => boolean,
  families: ByFamily<boolean>,
): string | Unusable {
  const address = canonicalAddress(text);
  if (address === undefined) return notAnAddress(text);
  if (isSpecial(address))
    return { code: "reserved-address", reason: `cannot be served at ${address}`, severity: "error" };
  if (families[familyOf(address)]) return address;
  const reason = `${address} is of a family that the Service does not have`;
  return { code: "missing-family", reason, severity: "warning" };
}

/** The reason why a text that is no IP address is rejected. */
export function notAnAddress(text: string): Unusable {
  return { code: "invalid-address", reason: `must be an IP address, not ${quoted(text)}`, severity: "error" };
}
