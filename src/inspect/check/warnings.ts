import { FAMILIES, FAMILY_NAMES, type Family } from "../../base/family.ts";
import { joinPath } from "../../base/schema-error.ts";
import { firstNames } from "../../base/text.ts";
import { FEATURES } from "../../features/registry.ts";
import {
  boundedInObject,
  type FieldDiagnostic,
  fieldWarning,
  type LocatedText,
  located,
} from "../../kube/decode/decode.ts";
import type { DiagnosticCode } from "../../kube/decode/diagnostic-code.ts";
import type { RawNode } from "../../kube/decode/node.ts";
import { firstClusterIP, ingressAddresses, type RawService } from "../../kube/decode/raw-service.ts";
import { unguardedFamilies } from "../../kube/decode/service-addresses.ts";
import type { Diagnostic } from "../../kube/files/diagnostic.ts";
import {
  type FileObjects,
  type FromFile,
  locate,
  placeText,
  servicesByName,
  writtenBy,
} from "../../kube/files/object-gatherer.ts";
import type { EndpointSlice } from "../../model/endpoint-slice.ts";
import type { ServiceName } from "../../model/ids.ts";
import { canonicalAddress, canonicalCidr, cidrContains, familyOf, isLinkLocal } from "../../model/ip.ts";
import type { ObjectCache } from "../../model/object-cache.ts";
import { hasFamily, type Service, type ServicePortSpec } from "../../model/service.ts";
import { hasClusterIP } from "../../model/service-port.ts";
import type { Conflict } from "../../ruleset/family-state.ts";
import { parseFrontendKey, portsText } from "../../ruleset/keys.ts";
import { affinitySecondsOf, type NodeContext } from "../../ruleset/node-context.ts";
import { otherTimeoutReason } from "../explain/words.ts";
import type { DesiredFromFiles } from "../load/desired.ts";

/**
 * Returns warnings about valid values that are most likely mistakes, unsorted: of single Services, conflicts
 * of several, and EndpointSlices that no Service uses. The files must be read thoroughly.
 */
export function checkWarnings({
  files,
  cache,
  state,
  nodeContext,
}: Pick<DesiredFromFiles, "files" | "cache" | "state" | "nodeContext">): Diagnostic[] {
  const { objects, ignored, invalid } = files;
  const subjects = servicesByName(objects);
  const context = { cache, nodeContext, nodes: nodeAddresses(objects) };
  const unused = new Set([...ignored, ...invalid].map(({ object }) => object));
  const clusterIPs = new Map(
    objects.services.flatMap(({ value: { clusterIPs: own, name } }) =>
      Object.values(own).flatMap((address) => (address === "" ? [] : [[address, name] as const])),
    ),
  );
  return [
    ...objects.services.flatMap((subject) => serviceWarnings(subject, context)),
    ...state.conflicts().flatMap((conflict) => conflictWarnings(conflict, subjects)),
    ...healthPortWarnings(objects.services),
    ...objects.endpointSlices.flatMap((slice) =>
      sliceWarnings(slice, subjects, unused, clusterIPs).map((found) => locate(slice, found)),
    ),
  ];
}

/**
 * Returns one warning for each loser of an address. A node port or cluster IP of two Services is an error of
 * its own.
 */
function conflictWarnings(
  { frontend, winner, losers }: Conflict,
  subjects: ReadonlyMap<ServiceName, FromFile<Service>>,
): Diagnostic[] {
  const holder = subjects.get(winner.service.name);
  if (holder === undefined) return [];
  const { address, protocol, ...ports } = parseFrontendKey(frontend);
  if (address === undefined) return [];
  return losers.flatMap((loser) => {
    const subject = subjects.get(loser.service.name);
    if (subject === undefined || hasClusterIP(loser, address)) return [];
    const why = hasClusterIP(winner, address)
      ? "whose cluster IP it is"
      : "which is older or comes first by name";
    const reason = `${address} ${protocol} ${portsText(ports)} goes to ${winner.name} (${placeText(holder)}), ${why}`;
    return [locate(subject, fieldWarning("address-conflict", conflictPath(subject, address), reason))];
  });
}

/** Returns the path of the loser's field that has the conflicting address. */
function conflictPath(subject: FromFile<Service>, address: string): string {
  const further = furtherAddressesOf(writtenBy(subject) as RawService);
  return further.find((one) => one.address === address)?.path ?? "spec.clusterIP";
}

/**
 * A health check node port is a socket of the node: it can belong to one Service only, and not be a NodePort.
 */
function healthPortWarnings(subjects: readonly FromFile<Service>[]): Diagnostic[] {
  const holders = new Map<number, string>();
  for (const { value } of subjects) {
    for (const { nodePort, protocol } of value.ports) {
      if (nodePort !== 0 && protocol === "tcp") holders.set(nodePort, `${value.name} as a node port`);
    }
  }
  return subjects.flatMap((subject) => {
    const { healthCheckNodePort: port, name } = subject.value;
    if (port === 0) return [];
    const holder = holders.get(port);
    holders.set(port, `${name} for its own health checks`);
    if (holder === undefined) return [];
    const reason = `${port} is also used by ${holder}`;
    return [locate(subject, fieldWarning("health-port-conflict", "spec.healthCheckNodePort", reason))];
  });
}

function sliceWarnings(
  { value: slice }: FromFile<EndpointSlice>,
  subjects: ReadonlyMap<ServiceName, FromFile<Service>>,
  unused: ReadonlySet<string>,
  clusterIPs: ReadonlyMap<string, ServiceName>,
): FieldDiagnostic[] {
  const service = subjects.get(slice.service)?.value;
  const loops = [...slice.endpoints].flatMap(({ address }, index) => {
    const owner = clusterIPs.get(address);
    if (owner === undefined) return [];
    const reason = `${address} is the cluster IP of ${owner}: connections cannot be forwarded to it`;
    return [fieldWarning("endpoint-is-cluster-ip", joinPath("endpoints", index), reason)];
  });
  if (service === undefined) {
    if (subjects.size === 0 || unused.has(`Service ${slice.service}`)) return loops;
    const reason = `belongs to the Service ${slice.service}, which is not among the files`;
    return [...loops, fieldWarning("slice-without-service", "metadata.labels", reason)];
  }
  if (hasFamily(service, slice.family)) return loops;
  const reason = `is of a family that the Service ${service.name} does not have: its endpoints are not used`;
  return [...loops, fieldWarning("slice-family", "addressType", reason)];
}

/** Address ranges that no client can have. Source: https://www.rfc-editor.org/rfc/rfc6890 */
const NO_CLIENTS = ["127.0.0.0/8", "224.0.0.0/4", "::1/128", "ff00::/8", "fe80::/10", "169.254.0.0/16"];

/** The facts on which a Service's warnings depend, besides the Service itself. */
interface WarningContext {
  readonly cache: ObjectCache;
  readonly nodeContext: NodeContext;
  /** The names of Nodes by their addresses. */
  readonly nodes: ReadonlyMap<string, string>;
}

function nodeAddresses({ nodes }: FileObjects): ReadonlyMap<string, string> {
  const names = new Map<string, string>();
  for (const node of nodes) {
    const { status } = writtenBy(node) as RawNode;
    for (const { type, address } of status?.addresses ?? []) {
      const found =
        type === "InternalIP" || type === "ExternalIP" ? canonicalAddress(address ?? "") : undefined;
      if (found !== undefined) names.set(found, node.value.name);
    }
  }
  return names;
}

/** Returns warnings about valid fields of one Service that are most likely mistakes. */
function serviceWarnings(subject: FromFile<Service>, context: WarningContext): Diagnostic[] {
  const { cache, nodeContext } = context;
  const service = subject.value;
  const written = writtenBy(subject) as RawService;
  const slices = cache.slices(service.name);
  const found = [
    ...endpointWarnings(service, written, slices),
    ...FAMILIES.flatMap((family) => portWarnings(service, written, slices, family)),
    ...sourceRangeWarnings(service, written),
    ...addressWarnings(service, written, cache),
    ...affinityWarnings(service, written, nodeContext),
    ...featureWarnings(service, written, context),
  ];
  // Bounded before their lines are looked up: there may be tens of thousands.
  return boundedInObject(found).map((one) => locate(subject, one));
}

/** Returns a warning if the timeout of session affinity is reduced or rounded up. */
function affinityWarnings(service: Service, { spec }: RawService, [context]: NodeContext): FieldDiagnostic[] {
  const seconds = context === undefined ? service.affinitySeconds : affinitySecondsOf(service, context);
  if (seconds === service.affinitySeconds) return [];
  const isGiven = spec.sessionAffinityConfig?.clientIP?.timeoutSeconds != null;
  const path = isGiven ? "spec.sessionAffinityConfig.clientIP.timeoutSeconds" : "spec.sessionAffinity";
  const why = otherTimeoutReason(seconds, service.affinitySeconds);
  const reason = `clients keep their endpoint for ${seconds} s, not ${service.affinitySeconds} s: ${why}`;
  return [fieldWarning("affinity-timeout", path, reason)];
}

/** With a selector, a controller creates the EndpointSlices; without one, they must be among the files. */
function endpointWarnings(
  { ports }: Service,
  { spec }: RawService,
  slices: readonly EndpointSlice[],
): FieldDiagnostic[] {
  if (slices.length > 0 || Object.keys(spec.selector ?? {}).length > 0 || ports.length === 0) return [];
  const reason = "has no selector, and there is no EndpointSlice for it: it has no endpoints";
  return [fieldWarning("no-endpoints", "spec", reason)];
}

function portWarnings(
  { clusterIPs, ports }: Service,
  { spec }: RawService,
  slices: readonly EndpointSlice[],
  family: Family,
): FieldDiagnostic[] {
  const filled = slices.filter((slice) => slice.family === family && slice.endpoints.length > 0);
  if (clusterIPs[family] === "" || filled.length === 0) return [];
  const offered = filled.flatMap((slice) => slice.ports);
  const words = new Set(offered.map(portWords));
  const known = words.size === 0 ? "are none" : `are ${firstNames([...words].sort(), MOST_NAMES)}`;
  return ports.flatMap((port) => {
    if (words.has(portWords(port))) return [];
    // Its index in the document: duplicate ports are not in the model.
    const index = (spec.ports ?? []).findIndex(({ name }) => (name ?? "") === port.name);
    const path = joinPath(joinPath("spec.ports", Math.max(0, index)), "name");
    const reason = `matches no port of the ${FAMILY_NAMES[family]} EndpointSlices: the Service's port is ${portWords(port)}, theirs ${known}`;
    return [fieldWarning("port-mismatch", path, reason)];
  });
}

/** Maximum number of ports named in a message. */
const MOST_NAMES = 10;

function portWords({ name, protocol }: Pick<ServicePortSpec, "name" | "protocol">): string {
  return `${name === "" ? "without a name" : `"${name}"`} (${protocol.toUpperCase()})`;
}

function sourceRangeWarnings(service: Service, { spec }: RawService): FieldDiagnostic[] {
  const texts = spec.loadBalancerSourceRanges ?? [];
  if (texts.length === 0 || spec.type !== "LoadBalancer") return [];
  const field = "spec.loadBalancerSourceRanges";
  const unguarded = unguardedFamilies(texts, service.loadBalancerSourceRanges);
  const open = FAMILIES.filter(
    (family) =>
      hasFamily(service, family) &&
      service.loadBalancerSourceRanges[family].length === 0 &&
      !unguarded.includes(family),
  );
  return [
    ...open.map((family) => {
      const reason = `has no ${FAMILY_NAMES[family]} range: all ${FAMILY_NAMES[family]} clients are allowed`;
      return fieldWarning("source-ranges-open", field, reason);
    }),
    ...texts.flatMap((text, index) => rangeWarning(text.trim(), joinPath(field, index), service) ?? []),
  ];
}

function rangeWarning(
  text: string,
  path: string,
  { clusterIPs, loadBalancerSourceRanges }: Service,
): FieldDiagnostic | undefined {
  const useless = (reason: string) => fieldWarning("source-range-useless", path, `${text} ${reason}`);
  const cidr = canonicalCidr(text);
  if (cidr === undefined) return undefined;
  const family = familyOf(cidr);
  const [address = "", length] = cidr.split("/");
  if (clusterIPs[family] === "") return useless("is of a family that the Service does not have");
  if (
    NO_CLIENTS.some((range) => cidrContains(range, address) && Number(length) >= Number(range.split("/")[1]))
  ) {
    return useless("holds no address that a client can have");
  }
  if (length === "0" && loadBalancerSourceRanges[family].length > 1)
    return useless("makes the other ranges redundant");
  if (canonicalAddress(text.split("/")[0] ?? "") !== address)
    return fieldWarning("source-range-host-bits", path, `${text} has host bits set; it means ${cidr}`);
  return undefined;
}

function addressWarnings(service: Service, written: RawService, cache: ObjectCache): FieldDiagnostic[] {
  const serviceCIDRs = cache.serviceCIDRs();
  const inServiceCIDR = (address: string) =>
    serviceCIDRs.some(({ cidrs }) => cidrs[familyOf(address)].some((cidr) => cidrContains(cidr, address)));
  const external = externalIPsOf(written).flatMap(({ address, path }) => {
    if (!inServiceCIDR(address)) return [];
    const reason = `${address} is in a ServiceCIDR: it may become another Service's cluster IP`;
    return [fieldWarning("external-ip-in-service-cidr", path, reason)];
  });
  const ingress = ingressIPsOf(written).flatMap(({ address, path }) => {
    if (!isLinkLocal(address)) return [];
    const reason = `${address} is link-local: routers do not forward packets to it`;
    return [fieldWarning("link-local-address", path, reason)];
  });
  const isPlaceholder = !firstClusterIP(written.spec);
  const outside = FAMILIES.flatMap((family) => {
    const address = service.clusterIPs[family];
    const known = serviceCIDRs.some(({ cidrs }) => cidrs[family].length > 0);
    if (address === "" || !known || inServiceCIDR(address) || isPlaceholder) return [];
    const reason = `${address} is not in any ServiceCIDR`;
    return [fieldWarning("cluster-ip-outside-service-cidr", "spec.clusterIP", reason)];
  });
  return [...external, ...ingress, ...outside];
}

/** Returns the warnings of features, those about addresses of Nodes first. */
function featureWarnings(
  service: Service,
  written: RawService,
  { nodeContext: [context], nodes }: WarningContext,
): FieldDiagnostic[] {
  if (context === undefined) return [];
  const atNodes = FEATURES.flatMap(({ words }) => words?.atNodeAddress?.(service, context) ?? []);
  const others = FEATURES.flatMap(({ words }) => words?.warnings?.(service, context) ?? []);
  return [
    ...atNodes.flatMap(({ code, reason }) =>
      furtherAddressesOf(written).flatMap(({ address, path }) => {
        const node = nodes.get(address);
        if (node === undefined) return [];
        const why = `${address} is an address of Node ${node}: ${reason}`;
        return [fieldWarning(code as DiagnosticCode, path, why)];
      }),
    ),
    ...others.map(({ annotation, code, reason }) =>
      fieldWarning(code as DiagnosticCode, joinPath("metadata.annotations", annotation), reason),
    ),
  ];
}

/** The addresses of a Service besides its cluster IPs, with their paths. */
function furtherAddressesOf(written: RawService) {
  return [...externalIPsOf(written), ...ingressIPsOf(written)];
}

function externalIPsOf({ spec }: RawService) {
  return addressesAmong(located(spec.externalIPs, "spec.externalIPs"));
}

function ingressIPsOf(raw: RawService) {
  return addressesAmong(ingressAddresses(raw));
}

/** The addresses of a Service, canonical, with their paths as they are written. */
function addressesAmong(texts: readonly LocatedText[]) {
  return texts.flatMap(({ text, path }) => {
    const address = canonicalAddress(text);
    return address === undefined ? [] : [{ address, path }];
  });
}
