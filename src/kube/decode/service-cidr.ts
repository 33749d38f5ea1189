import type { ServiceCIDR } from "../../model/node.ts";
import {
  type Decoded,
  type FieldDiagnostic,
  invalid,
  located,
  type RawMetadata,
  readCidr,
  textsByFamily,
  valid,
} from "./decode.ts";
import { shapeDiagnostics } from "./shape.ts";

/** The fields of a ServiceCIDR that are read, as schemas/servicecidr.schema.json accepts them. */
interface RawServiceCIDR {
  readonly metadata: RawMetadata;
  readonly spec: { readonly cidrs: readonly string[] | null };
}

/** Decodes a ServiceCIDR (networking.k8s.io/v1, https://kep.k8s.io/1880). */
export function decodeServiceCIDR(object: unknown): Decoded<ServiceCIDR> {
  const shape = shapeDiagnostics("ServiceCIDR", object);
  if (shape.length > 0) return invalid(shape);
  const { metadata, spec } = object as RawServiceCIDR;
  const diagnostics: FieldDiagnostic[] = [];
  const cidrs = textsByFamily(located(spec.cidrs, "spec.cidrs"), readCidr, diagnostics);
  if (cidrs.ip.length + cidrs.ip6.length === 0) {
    diagnostics.push({ path: "spec.cidrs", reason: "must have a CIDR", severity: "error" });
    return invalid(diagnostics);
  }
  return valid({ name: metadata.name, uid: metadata.uid ?? "", cidrs }, diagnostics);
}
