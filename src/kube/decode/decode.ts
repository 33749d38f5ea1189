import type { ByFamily } from "../../base/family.ts";
import { byFamily } from "../../base/family.ts";
import { joinPath, quoted } from "../../base/schema-error.ts";
import { canonicalAddress, canonicalCidr, familyOf } from "../../model/ip.ts";

/** Something wrong with an object that we read. */
export interface FieldDiagnostic {
  /** Where, such as `spec.ports[0].port`; "" for the whole object. */
  readonly path: string;
  readonly reason: string;
  /** An error is what the API would refuse; a warning has no meaning to us, though it is well-formed. */
  readonly severity: "error" | "warning";
}

/** What came of an API object. */
export type Decoded<T> =
  /** To be served, but for the parts named by `faults`, which were left out. */
  | { readonly kind: "ours"; readonly value: T; readonly faults: readonly FieldDiagnostic[] }
  /** Sound, but nothing that this proxy serves. */
  | { readonly kind: "ignored"; readonly reason: string }
  /** Nothing of it can be used. */
  | { readonly kind: "refused"; readonly faults: readonly FieldDiagnostic[] };

/** `null` means the same as absent in the API. */
export type Optional<T> = T | null | undefined;

/** The part of an object's `metadata` that every decoder reads. */
export interface RawMetadata {
  readonly name: string;
  readonly namespace?: Optional<string>;
  readonly uid?: Optional<string>;
  readonly creationTimestamp?: Optional<string>;
  readonly deletionTimestamp?: Optional<string>;
  readonly labels?: Optional<Readonly<Record<string, Optional<string>>>>;
  readonly annotations?: Optional<Readonly<Record<string, Optional<string>>>>;
}

const PROXY_NAME_LABEL = "service.kubernetes.io/service-proxy-name";
const HEADLESS_LABEL = "service.kubernetes.io/headless";

/**
 * Why an object is left to others: kube-proxy's label selector (`!service.kubernetes.io/service-proxy-name`,
 * `!service.kubernetes.io/headless`), here for objects that come from files.
 */
export function foreignLabel(metadata: RawMetadata): string | undefined {
  const labels = metadata.labels ?? {};
  if (Object.hasOwn(labels, PROXY_NAME_LABEL)) return `is left to another proxy by its label ${PROXY_NAME_LABEL}`;
  return Object.hasOwn(labels, HEADLESS_LABEL) ? `is headless by its label ${HEADLESS_LABEL}` : undefined;
}

/** Milliseconds since 1970 of an RFC 3339 time, 0 when absent; a date that there is not is a fault. */
export function timeOf(text: Optional<string>, path: string, faults: FieldDiagnostic[]): number {
  if (text === null || text === undefined || text === "") return 0;
  const time = Date.parse(text);
  if (!Number.isNaN(time)) return time;
  faults.push({ path, reason: `must be a time, not ${quoted(text)}`, severity: "warning" });
  return 0;
}

/** An address in a list of an object, and where it stands. */
export interface LocatedText {
  readonly text: string;
  readonly path: string;
}

/** The texts of a list with their paths. */
export function located(texts: Optional<readonly string[]>, path: string): LocatedText[] {
  return (texts ?? []).map((text, index) => ({ text, path: joinPath(path, index) }));
}

/** One for all: most Services have no addresses but their cluster IPs. */
const NO_TEXTS: ByFamily<readonly string[]> = byFamily(() => []);

/** Sorts out what `read` can make of a list by family, each once, in the order given; the rest are faults. */
export function textsByFamily(
  texts: readonly LocatedText[],
  read: (text: string) => string | Unusable,
  faults: FieldDiagnostic[],
): ByFamily<readonly string[]> {
  if (texts.length === 0) return NO_TEXTS;
  const result = byFamily((): string[] => []);
  for (const { text, path } of texts) {
    const value = read(text);
    if (typeof value !== "string") faults.push({ path, ...value });
    else if (!result[familyOf(value)].includes(value)) result[familyOf(value)].push(value);
  }
  return result;
}

/** Why a text cannot be used. */
export type Unusable = Pick<FieldDiagnostic, "reason" | "severity">;

/** Reads a CIDR for {@link textsByFamily}. */
export function readCidr(text: string): string | Unusable {
  return canonicalCidr(text) ?? { reason: `must be a CIDR, not ${quoted(text)}`, severity: "error" };
}

/** Reads an address for {@link textsByFamily}; `isSpecial` tells those that make no sense in this place. */
export function readAddress(
  text: string,
  isSpecial: (address: string) => boolean,
  families: ByFamily<boolean>,
): string | Unusable {
  const address = canonicalAddress(text);
  if (address === undefined) return { reason: `must be an IP address, not ${quoted(text)}`, severity: "error" };
  if (isSpecial(address)) return { reason: `cannot be served at ${address}`, severity: "error" };
  if (families[familyOf(address)]) return address;
  return { reason: `${address} is of a family that the Service does not have`, severity: "warning" };
}
