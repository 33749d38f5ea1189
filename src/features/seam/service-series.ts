import type { Labels } from "../../base/sample.ts";
import type { ValuesByName } from "../../base/values-by-name.ts";
import { type ServiceName, serviceLabels } from "../../model/ids.ts";

/**
 * Maximum number of Services that the metrics of a feature count separately; the rest is counted without a
 * Service name.
 */
export const MOST_SERVICES = 1000;

/** The values of each Service with its labels, and those of the rest, if any, with empty labels. */
export function serviceSeries<Value>(values: ValuesByName<ServiceName, Value>): (readonly [Labels, Value])[] {
  const named = [...values].map(([name, value]) => [serviceLabels(name), value] as const);
  const { rest } = values;
  return rest === undefined ? named : [...named, [{ namespace: "", service: "" }, rest]];
}
