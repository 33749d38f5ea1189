import { nearest } from "../../base/nearest.ts";
import { alternatives, listText } from "../../base/text.ts";
import type { ServiceName } from "../../model/ids.ts";

/** The most Services of one name in different namespaces that are suggested. */
const MOST_NAMESAKES = 3;

/**
 * A hint at the Services that were probably meant: of the same name elsewhere, of a near name, of the same namespace.
 * Undefined when there is none of these.
 */
export function likelyService(service: ServiceName, names: readonly ServiceName[]): string | undefined {
  const [namespace, name] = service.split("/");
  const namesakes = names.filter((one) => one.endsWith(`/${name}`));
  if (namesakes.length > 0) return `did you mean ${alternatives(namesakes.slice(0, MOST_NAMESAKES))}?`;
  const near = nearest(service, names);
  if (near !== undefined) return `did you mean ${near}?`;
  const neighbours = names.filter((one) => one.startsWith(`${namespace}/`));
  return neighbours.length === 0 ? undefined : `in that namespace: ${listText(neighbours)}`;
}
