import { type Protocol, type ServiceName, serviceName } from "../../model/ids.ts";
import { canonicalAddress } from "../../model/ip.ts";
import { decodeService } from "./service.ts";

/** A Service that is sound and none that we serve: headless, an ExternalName, or left to another proxy. */
export interface IgnoredService {
  readonly name: ServiceName;
  /** Why, to go on after its name: `is headless`. */
  readonly reason: string;
  readonly why: "other-proxy" | "headless" | "external-name" | "no-cluster-ip";
  /** Every address that it has, of whichever kind, canonical. */
  readonly addresses: readonly string[];
  readonly nodePorts: readonly { readonly protocol: Protocol; readonly port: number }[];
  /** `spec.externalName`, "" for none. */
  readonly externalName: string;
}

/** An address that a served Service has, and that a load balancer keeps to itself (KEP-1860: `ipMode` Proxy). */
export interface LoadBalancersAddress {
  readonly service: ServiceName;
  readonly address: string;
}

/** What a Service that {@link decodeService} has read may have. */
interface RawService {
  readonly metadata: { readonly namespace?: string | null; readonly name: string; readonly labels?: Labels | null };
  readonly spec: {
    readonly type?: string | null;
    readonly clusterIP?: string | null;
    readonly clusterIPs?: readonly string[] | null;
    readonly externalIPs?: readonly string[] | null;
    readonly externalName?: string | null;
    readonly ports?: readonly { readonly protocol?: string | null; readonly nodePort?: number | null }[] | null;
  };
  readonly status?: {
    readonly loadBalancer?: { readonly ingress?: readonly RawIngress[] | null } | null;
  } | null;
}

interface RawIngress {
  readonly ip?: string | null;
  readonly ipMode?: string | null;
}

type Labels = Readonly<Record<string, string | null | undefined>>;

const PROXY_NAME_LABEL = "service.kubernetes.io/service-proxy-name";

/** What is to be known of a Service that we pass over; undefined for one that we serve, or that is not sound. */
export function ignoredService(object: unknown): IgnoredService | undefined {
  const decoded = decodeService(object);
  if (decoded.kind !== "ignored") return undefined;
  const raw = object as RawService;
  const { metadata, spec } = raw;
  const texts = [
    spec.clusterIP,
    ...(spec.clusterIPs ?? []),
    ...(spec.externalIPs ?? []),
    ...(raw.status?.loadBalancer?.ingress ?? []).map(({ ip }) => ip),
  ];
  const addresses = texts.flatMap((text) => canonicalAddress(text ?? "") ?? []);
  return {
    name: serviceName(metadata.namespace ?? "default", metadata.name),
    reason: reasonOf(raw, decoded.reason),
    why: whyOf(raw),
    addresses: [...new Set(addresses)],
    nodePorts: (spec.ports ?? []).flatMap(({ protocol, nodePort }) =>
      nodePort ? [{ protocol: (protocol || "TCP").toLowerCase() as Protocol, port: nodePort }] : [],
    ),
    externalName: spec.externalName ?? "",
  };
}

/** The addresses of a Service that we serve elsewhere, but not there; none of any other object. */
export function loadBalancersAddresses(object: unknown): LoadBalancersAddress[] {
  if (decodeService(object).kind !== "ours") return [];
  const { metadata, status } = object as RawService;
  const service = serviceName(metadata.namespace ?? "default", metadata.name);
  return (status?.loadBalancer?.ingress ?? []).flatMap(({ ip, ipMode }) => {
    const address = canonicalAddress(ip ?? "");
    return address === undefined || ipMode !== "Proxy" ? [] : [{ service, address }];
  });
}

function proxyNameOf({ metadata }: RawService): string | undefined {
  const labels = metadata.labels ?? {};
  return Object.hasOwn(labels, PROXY_NAME_LABEL) ? (labels[PROXY_NAME_LABEL] ?? "") : undefined;
}

function reasonOf(raw: RawService, reason: string): string {
  const proxy = proxyNameOf(raw);
  return proxy ? `${reason} (${proxy})` : reason;
}

function whyOf(raw: RawService): IgnoredService["why"] {
  if (proxyNameOf(raw) !== undefined) return "other-proxy";
  if (raw.spec.type === "ExternalName") return "external-name";
  const hasAddress = canonicalAddress(raw.spec.clusterIP || raw.spec.clusterIPs?.[0] || "") !== undefined;
  const isHeadless = !hasAddress && (raw.spec.clusterIP || raw.spec.clusterIPs?.[0]) === "None";
  return isHeadless || hasAddress ? "headless" : "no-cluster-ip";
}
