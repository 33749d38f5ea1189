import type { ServiceCIDR } from "../../model/node.ts";
import { type Decoded, type FieldDiagnostic, located, type RawMetadata, readCidr, textsByFamily } from "./decode.ts";
import { shapeFaults } from "./shape.ts";

/** What schemas/servicecidr.schema.json lets through. */
interface RawServiceCIDR {
  readonly metadata: RawMetadata;
  readonly spec: { readonly cidrs: readonly string[] | null };
}

/** Reads a ServiceCIDR as the API gives it (networking.k8s.io/v1, KEP-1880). */
export function decodeServiceCIDR(object: unknown): Decoded<ServiceCIDR> {
  const shape = shapeFaults("ServiceCIDR", object);
  if (shape.length > 0) return { kind: "refused", faults: shape };
  const { metadata, spec } = object as RawServiceCIDR;
  const faults: FieldDiagnostic[] = [];
  const cidrs = textsByFamily(located(spec.cidrs, "spec.cidrs"), readCidr, faults);
  if (cidrs.ip.length + cidrs.ip6.length === 0) {
    faults.push({ path: "spec.cidrs", reason: "must have a CIDR", severity: "error" });
    return { kind: "refused", faults };
  }
  return { kind: "ours", value: { name: metadata.name, uid: metadata.uid ?? "", cidrs }, faults };
}
