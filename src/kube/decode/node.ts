import type { ByFamily } from "../../base/family.ts";
import { byFamily } from "../../base/family.ts";
import { joinPath, quoted } from "../../base/schema-error.ts";
import { canonicalAddress } from "../../model/ip.ts";
import type { Node } from "../../model/node.ts";
import {
  type Decoded,
  type FieldDiagnostic,
  invalid,
  type LocatedText,
  located,
  type Optional,
  type RawMetadata,
  readCidr,
  textsByFamily,
  type Unusable,
  valid,
} from "./decode.ts";
import { shapeDiagnostics } from "./shape.ts";

const ZONE_LABEL = "topology.kubernetes.io/zone";

interface RawNodeAddress {
  readonly type?: Optional<string>;
  readonly address?: Optional<string>;
}

/** The fields of a Node that are read, as schemas/node.schema.json accepts them. */
interface RawNode {
  readonly metadata: RawMetadata;
  readonly spec?: Optional<{
    readonly podCIDR?: Optional<string>;
    readonly podCIDRs?: Optional<readonly string[]>;
    readonly taints?: Optional<readonly { readonly key?: Optional<string> }[]>;
  }>;
  readonly status?: Optional<{ readonly addresses?: Optional<readonly RawNodeAddress[]> }>;
}

/** Decodes a Node (core/v1). */
export function decodeNode(object: unknown): Decoded<Node> {
  const shape = shapeDiagnostics("Node", object);
  if (shape.length > 0) return invalid(shape);
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

/** Returns the first InternalIP of each family, or else the first ExternalIP: kube-proxy's choice of node IP. */
function primaryAddresses(addresses: readonly RawNodeAddress[], diagnostics: FieldDiagnostic[]): ByFamily<string> {
  const ofType = (wanted: string): LocatedText[] =>
    addresses.flatMap(({ type, address }, index) =>
      type === wanted ? [{ text: address ?? "", path: joinPath(joinPath("status.addresses", index), "address") }] : [],
    );
  const read = (text: string): string | Unusable =>
    canonicalAddress(text) ?? { reason: `must be an IP address, not ${quoted(text)}`, severity: "error" };
  const usable = textsByFamily([...ofType("InternalIP"), ...ofType("ExternalIP")], read, diagnostics);
  return byFamily((family) => usable[family][0] ?? "");
}

function podCIDRsOf(spec: RawNode["spec"]): LocatedText[] {
  if (spec?.podCIDRs?.length) return located(spec.podCIDRs, "spec.podCIDRs");
  return spec?.podCIDR ? [{ text: spec.podCIDR, path: "spec.podCIDR" }] : [];
}
