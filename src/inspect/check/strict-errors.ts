import type { ObjectKind } from "../../kube/decode/shape.ts";
import type { Diagnostic } from "../../kube/files/diagnostic.ts";
import type { FilesResult } from "../../kube/files/object-gatherer.ts";
import { compareAge } from "../../model/service.ts";
import type { Subject } from "./diagnostics.ts";
import { duplicateNodePortErrors, serviceRuleErrors } from "./service-rules.ts";
import { unknownFieldErrors } from "./unknown-fields.ts";

/**
 * Returns the errors that the API server would report and that do not matter to a proxy: unknown fields (as with
 * `kubectl --validate=strict`), also of objects with other errors, and rules of Services. The files must be read thoroughly.
 */
export function strictErrors({ objects, ignored, invalid }: FilesResult): Diagnostic[] {
  const others = (kind: ObjectKind) => ignored.filter(({ object }) => object.startsWith(`${kind} `));
  const served = objects.services.map((from) => ({ ...from, object: `Service ${from.value.name}` }));
  const services: Subject[] = [...served, ...others("Service")];
  const byAge = served.toSorted((a, b) => compareAge(a.value, b.value));
  const slices: Subject[] = [
    ...objects.endpointSlices.map((from) => {
      return { ...from, object: `EndpointSlice ${from.value.namespace}/${from.value.name}` };
    }),
    ...others("EndpointSlice"),
  ];
  const serviceCIDRs = objects.serviceCIDRs.map((from) => ({ ...from, object: `ServiceCIDR ${from.value.name}` }));
  return [
    ...services.flatMap((subject) => [...unknownFieldErrors("Service", subject), ...serviceRuleErrors(subject)]),
    ...duplicateNodePortErrors([...byAge, ...others("Service")]),
    ...slices.flatMap((subject) => unknownFieldErrors("EndpointSlice", subject)),
    ...serviceCIDRs.flatMap((subject) => unknownFieldErrors("ServiceCIDR", subject)),
    // A misspelt name is often why another field is missing.
    ...invalid.flatMap(({ of, ...subject }) => unknownFieldErrors(of, subject)),
  ];
}
