import { AppError } from "../../base/errors.ts";
import type { Decoders } from "../reflector/cluster-source.ts";
import { metadataOf } from "../reflector/object-store.ts";
import type { Decoded, FieldDiagnostic } from "./decode.ts";
import { decodeEndpointSlice } from "./endpoint-slice.ts";
import { decodeNode } from "./node.ts";
import { decodeService } from "./service.ts";
import { decodeServiceCIDR } from "./service-cidr.ts";

/**
 * The decoders for what an API server sends.
 * @param onFaults told of the parts of a usable object that were left out; `object` is `Service namespace/name`
 */
export function apiDecoders(onFaults: (object: string, faults: readonly FieldDiagnostic[]) => void): Decoders {
  const decoder =
    <T>(kind: string, decode: (object: unknown) => Decoded<T>) =>
    (object: unknown): T | undefined => {
      const decoded = decode(object);
      if (decoded.kind === "ignored") return undefined;
      if (decoded.kind === "refused") throw new AppError("REFUSED_INPUT", faultsText(decoded.faults));
      if (decoded.faults.length > 0) onFaults(`${kind} ${nameOf(object)}`, decoded.faults);
      return decoded.value;
    };
  return {
    services: decoder("Service", decodeService),
    endpointslices: decoder("EndpointSlice", decodeEndpointSlice),
    nodes: decoder("Node", decodeNode),
    servicecidrs: decoder("ServiceCIDR", decodeServiceCIDR),
  };
}

/** Faults in one line: `spec.ports[0].port must be ...; ...`. */
export function faultsText(faults: readonly FieldDiagnostic[]): string {
  return faults.map(({ path, reason }) => `${path} ${reason}`.trim()).join("; ");
}

function nameOf(object: unknown): string {
  const { namespace, name } = metadataOf(object);
  return [namespace, name].filter((part) => typeof part === "string").join("/");
}
