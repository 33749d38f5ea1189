import { type Protocol, type ServiceName, serviceName } from "../../model/ids.ts";
import { canonicalAddress } from "../../model/ip.ts";
import { hasLabel, protocolOf } from "./decode.ts";
import { ingressOf, isHeadless, type RawService } from "./raw-service.ts";
import { decodeService, PROXY_NAME_LABEL } from "./service.ts";

/** A valid Service that nft-proxy does not serve: headless, an ExternalName, or handled by another proxy. */
export interface IgnoredService {
  readonly name: ServiceName;
  /** The reason, as the predicate of a sentence: `is headless`. */
  readonly reason: string;
  readonly why: "other-proxy" | "headless" | "external-name" | "no-cluster-ip";
  /** All addresses of the Service, of every kind, canonical. */
  readonly addresses: readonly string[];
  readonly nodePorts: readonly { readonly protocol: Protocol; readonly port: number }[];
  /** `spec.externalName`, "" for none. */
  readonly externalName: string;
}

/**
 * A load balancer address of a served Service that nodes do not serve: `ipMode` Proxy
 * (https://kep.k8s.io/1860).
 */
export interface LoadBalancersAddress {
  readonly service: ServiceName;
  readonly address: string;
}

/** Services, and addresses of Services, that nft-proxy does not serve. */
export interface UnservedServices {
  readonly ignored: readonly IgnoredService[];
  readonly loadBalancers: readonly LoadBalancersAddress[];
  /** Why they are unknown; absent if they are known. */
  readonly problem?: string;
}

/**
 * Finds the Services and addresses that nft-proxy does not serve, among raw objects from an API server or a
 * file.
 */
export function unservedAmong(objects: readonly unknown[]): UnservedServices {
  const ignored: IgnoredService[] = [];
  const loadBalancers: LoadBalancersAddress[] = [];
  for (const object of objects) {
    const decoded = decodeService(object);
    if (decoded.kind === "ignored") ignored.push(ignoredService(object as RawService, decoded.reason));
    if (decoded.kind === "valid") loadBalancers.push(...loadBalancersAddresses(object as RawService));
  }
  return { ignored, loadBalancers };
}

function ignoredService(raw: RawService, reason: string): IgnoredService {
  const { metadata, spec } = raw;
  const proxy = metadata.labels?.[PROXY_NAME_LABEL];
  const texts = [
    spec.clusterIP,
    ...(spec.clusterIPs ?? []),
    ...(spec.externalIPs ?? []),
    ...ingressOf(raw).map(({ ip }) => ip),
  ];
  const addresses = texts.flatMap((text) => canonicalAddress(text ?? "") ?? []);
  return {
    name: nameOf(raw),
    reason: proxy ? `${reason} (${proxy})` : reason,
    why: whyOf(raw),
    addresses: [...new Set(addresses)],
    nodePorts: (spec.ports ?? []).flatMap(({ protocol, nodePort }) =>
      nodePort ? [{ protocol: protocolOf(protocol), port: nodePort }] : [],
    ),
    externalName: spec.externalName ?? "",
  };
}

/** The load balancer addresses of a served Service whose `ipMode` is Proxy. */
function loadBalancersAddresses(raw: RawService): LoadBalancersAddress[] {
  return ingressOf(raw).flatMap(({ ip, ipMode }) => {
    const address = canonicalAddress(ip ?? "");
    return address === undefined || ipMode !== "Proxy" ? [] : [{ service: nameOf(raw), address }];
  });
}

function nameOf({ metadata }: RawService): ServiceName {
  return serviceName(metadata.namespace ?? "default", metadata.name);
}

function whyOf({ metadata, spec }: RawService): IgnoredService["why"] {
  if (hasLabel(metadata, PROXY_NAME_LABEL)) return "other-proxy";
  if (spec.type === "ExternalName") return "external-name";
  return isHeadless(spec) ? "headless" : "no-cluster-ip";
}
