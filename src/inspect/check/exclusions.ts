import { badArgument } from "../../base/errors.ts";
import { didYouMean } from "../../base/nearest.ts";
import { quoted } from "../../base/text.ts";
import { DIAGNOSTIC_CODES } from "../../kube/decode/diagnostic-code.ts";
import { metadataOf } from "../../kube/decode/metadata.ts";
import type { Diagnostic } from "../../kube/files/diagnostic.ts";
import { type FilesResult, type WrittenObject, writtenBy } from "../../kube/files/object-gatherer.ts";

/**
 * The prefix of annotations that exclude a diagnostic of one object, such as those of kube-linter; the code
 * follows.
 */
export const EXCLUDING = "ignore-check.nft-proxy.io/";

/** Returns the annotations of an object as they are written. */
export function annotationsOf(subject: WrittenObject): object {
  const { annotations } = metadataOf(writtenBy(subject));
  return typeof annotations === "object" && annotations !== null ? annotations : {};
}

/**
 * Returns a predicate of the diagnostics that are not to be reported: those of `--exclude`, and those that an
 * annotation of their object excludes. The files must be read thoroughly.
 * @param items codes and objects: `duplicate-node-port`, `Service/shop/cart`
 * @throws AppError BAD_ARGUMENT for an item that is neither
 */
export function exclusions(
  items: readonly string[],
  { objects, ignored, invalid }: FilesResult,
): (diagnostic: Diagnostic) => boolean {
  for (const item of items) refuseUnknown(item);
  const excluded = new Set(items.map((item) => item.replace("/", " ")));
  const subjects = [...objects.services, ...objects.endpointSlices, ...ignored, ...invalid];
  const byObject = new Map(subjects.map((subject) => [subject.object, annotationsOf(subject)]));
  return ({ code, object }) =>
    excluded.has(code) ||
    (object !== undefined &&
      (excluded.has(object) || Object.hasOwn(byObject.get(object) ?? {}, `${EXCLUDING}${code}`)));
}

/** `Service/shop/cart`, `ServiceCIDR/kubernetes` */
const OBJECT = /^(?:Service|EndpointSlice|Node|ServiceCIDR)(?:\/[^/]+){1,2}$/;

function refuseUnknown(item: string): void {
  if (DIAGNOSTIC_CODES.some((code) => code === item) || OBJECT.test(item)) return;
  throw badArgument(`--exclude: ${quoted(item)} is neither a code nor KIND/NAMESPACE/NAME`, {
    hint: didYouMean(item, DIAGNOSTIC_CODES) ?? "docs/checks.md lists the codes",
  });
}
