import { AppError } from "../../base/errors.ts";
import { ALL_FEATURES } from "../../features/selection.ts";
import type { Decoded, FieldDiagnostic } from "./decode.ts";
import { decodeEndpointSlice } from "./endpoint-slice.ts";
import { objectName } from "./metadata.ts";
import { decodeNode, decodeServiceCIDR } from "./node.ts";
import { decodeService } from "./service.ts";

/**
 * Functions that turn an API object into the stored one, for each resource. They return undefined for an
 * object that nft-proxy does not manage, and throw for an invalid one.
 */
export type Decoders = Readonly<ReturnType<typeof apiDecoders>>;

/**
 * Returns the decoders for objects from an API server. They throw AppError REFUSED_INPUT for an invalid
 * object.
 * @param onDiagnostics called for each valid object with the parts that are excluded, mostly none; `object`
 * is `Service namespace/name`
 */
export function apiDecoders(
  onDiagnostics: (object: string, diagnostics: readonly FieldDiagnostic[]) => void,
  enabled = ALL_FEATURES,
) {
  const decoder =
    <T>(kind: string, decode: (object: unknown) => Decoded<T>) =>
    (object: unknown): T | undefined => {
      const decoded = decode(object);
      if (decoded.kind === "ignored") return undefined;
      if (decoded.kind === "invalid")
        throw new AppError("REFUSED_INPUT", diagnosticsText(decoded.diagnostics));
      onDiagnostics(objectName(kind, object), decoded.diagnostics);
      return decoded.value;
    };
  return {
    services: decoder("Service", (object) => decodeService(object, enabled)),
    endpointslices: decoder("EndpointSlice", (object) => decodeEndpointSlice(object, enabled)),
    nodes: decoder("Node", decodeNode),
    servicecidrs: decoder("ServiceCIDR", decodeServiceCIDR),
  };
}

/** Formats diagnostics as one line: `spec.ports[0].port must be ...; ...`. */
export function diagnosticsText(diagnostics: readonly FieldDiagnostic[]): string {
  return diagnostics.map(({ path, reason }) => `${path} ${reason}`.trim()).join("; ");
}
