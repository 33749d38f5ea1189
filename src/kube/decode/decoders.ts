import { AppError } from "../../base/errors.ts";
import type { Decoders } from "../reflector/cluster-source.ts";
import { metadataOf } from "../reflector/object-store.ts";
import type { Decoded, FieldDiagnostic } from "./decode.ts";
import { decodeEndpointSlice } from "./endpoint-slice.ts";
import { decodeNode } from "./node.ts";
import { decodeService } from "./service.ts";
import { decodeServiceCIDR } from "./service-cidr.ts";

/**
 * Returns the decoders for objects from an API server. They throw AppError REFUSED_INPUT for an invalid object.
 * @param onDiagnostics called for each valid object of which parts are excluded; `object` is `Service namespace/name`
 */
export function apiDecoders(
  onDiagnostics: (object: string, diagnostics: readonly FieldDiagnostic[]) => void,
): Decoders {
  const decoder =
    <T>(kind: string, decode: (object: unknown) => Decoded<T>) =>
    (object: unknown): T | undefined => {
      const decoded = decode(object);
      if (decoded.kind === "ignored") return undefined;
      if (decoded.kind === "invalid") throw new AppError("REFUSED_INPUT", diagnosticsText(decoded.diagnostics));
      if (decoded.diagnostics.length > 0) onDiagnostics(`${kind} ${nameOf(object)}`, decoded.diagnostics);
      return decoded.value;
    };
  return {
    services: decoder("Service", decodeService),
    endpointslices: decoder("EndpointSlice", decodeEndpointSlice),
    nodes: decoder("Node", decodeNode),
    servicecidrs: decoder("ServiceCIDR", decodeServiceCIDR),
  };
}

/** Formats diagnostics as one line: `spec.ports[0].port must be ...; ...`. */
export function diagnosticsText(diagnostics: readonly FieldDiagnostic[]): string {
  return diagnostics.map(({ path, reason }) => `${path} ${reason}`.trim()).join("; ");
}

function nameOf(object: unknown): string {
  const { namespace, name } = metadataOf(object);
  return [namespace, name].filter((part) => typeof part === "string").join("/");
}
