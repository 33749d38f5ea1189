import type { V1Node, V1NodeAddress } from "@kubernetes/client-node";
import { type ByFamily, byFamily } from "../../base/family.ts";
import { joinPath } from "../../base/schema-error.ts";
import { canonicalAddress } from "../../model/ip.ts";
import type { Node, ServiceCIDR } from "../../model/node.ts";
import {
  type Decoded,
  type FieldDiagnostic,
  fieldError,
  invalid,
  type LocatedText,
  located,
  notAnAddress,
  type Raw,
  type RawMetadata,
  readCidr,
  textsByFamily,
  type Unusable,
  valid,
} from "./decode.ts";
import { shapeOf } from "./shape.ts";

const ZONE_LABEL = "topology.kubernetes.io/zone";

/** A Node as schemas/node.schema.json accepts it. */
export type RawNode = Omit<Raw<V1Node>, "metadata"> & { readonly metadata: RawMetadata };

/** A ServiceCIDR as schemas/servicecidr.schema.json accepts it. */
export interface RawServiceCIDR {
  readonly metadata: RawMetadata;
  readonly spec: { readonly cidrs: readonly string[] | null };
}

/** Decodes a Node (core/v1). */
export function decodeNode(object: unknown): Decoded<Node> {
  const { errors } = shapeOf("Node", object);
  if (errors.length > 0) return invalid(errors);
  const { metadata, spec, status } = object as RawNode;
  const diagnostics: FieldDiagnostic[] = [];
  const value: Node = {
    name: metadata.name,
    uid: metadata.uid ?? "",
    zone: metadata.labels?.[ZONE_LABEL] ?? "",
    addresses: primaryAddresses(status?.addresses ?? [], diagnostics),
    podCIDRs: textsByFamily(podCIDRsOf(spec), readCidr, diagnostics),
    deleting: Boolean(metadata.deletionTimestamp),
    taints: (spec?.taints ?? []).flatMap(({ key }) => (key ? [key] : [])),
  };
  return valid(value, diagnostics);
}

/**
 * Returns the first InternalIP of each family, or else the first ExternalIP: kube-proxy's choice of node IP.
 */
function primaryAddresses(
  addresses: readonly Raw<V1NodeAddress>[],
  diagnostics: FieldDiagnostic[],
): ByFamily<string> {
  const ofType = (wanted: string): LocatedText[] =>
    addresses.flatMap(({ type, address }, index) =>
      type === wanted
        ? [{ text: address ?? "", path: joinPath(joinPath("status.addresses", index), "address") }]
        : [],
    );
  const read = (text: string): string | Unusable => canonicalAddress(text) ?? notAnAddress(text);
  const usable = textsByFamily([...ofType("InternalIP"), ...ofType("ExternalIP")], read, diagnostics);
  return byFamily((family) => usable[family][0] ?? "");
}

function podCIDRsOf(spec: RawNode["spec"]): LocatedText[] {
  if (spec?.podCIDRs?.length) return located(spec.podCIDRs, "spec.podCIDRs");
  return spec?.podCIDR ? [{ text: spec.podCIDR, path: "spec.podCIDR" }] : [];
}

/** Decodes a ServiceCIDR (networking.k8s.io/v1, https://kep.k8s.io/1880). */
export function decodeServiceCIDR(object: unknown): Decoded<ServiceCIDR> {
  const { errors } = shapeOf("ServiceCIDR", object);
  if (errors.length > 0) return invalid(errors);
  const { metadata, spec } = object as RawServiceCIDR;
  const diagnostics: FieldDiagnostic[] = [];
  const cidrs = textsByFamily(located(spec.cidrs, "spec.cidrs"), readCidr, diagnostics);
  if (cidrs.ip.length + cidrs.ip6.length === 0) {
    diagnostics.push(fieldError("missing-field", "spec.cidrs", "must have a CIDR"));
    return invalid(diagnostics);
  }
  return valid({ name: metadata.name, uid: metadata.uid ?? "", cidrs }, diagnostics);
}
