import { FAMILIES } from "../../base/family.ts";
import { joinPath } from "../../base/schema-error.ts";
import type { RawService } from "../../kube/decode/raw-service.ts";
import type { Diagnostic } from "../../kube/files/diagnostic.ts";
import type { FileObjects, FilesResult, FromFile } from "../../kube/files/object-gatherer.ts";
import { writtenBy } from "../../kube/files/object-gatherer.ts";
import type { EndpointSlice } from "../../model/endpoint-slice.ts";
import type { ServiceName } from "../../model/ids.ts";
import { canonicalAddress } from "../../model/ip.ts";
import type { Service } from "../../model/service.ts";
import { hasClusterIP } from "../../model/service-port.ts";
import type { Conflict } from "../../ruleset/family-state.ts";
import { parseFrontendKey } from "../../ruleset/keys.ts";
import { placeText, type Subject, warningAt } from "./diagnostics.ts";

/** Returns the subjects of diagnostics about Services. */
export function serviceSubjects({ services }: FileObjects): Map<ServiceName, Subject & { readonly value: Service }> {
  return new Map(services.map((from) => [from.value.name, { ...from, object: `Service ${from.value.name}` }]));
}

/** Returns warnings about several objects together: conflicts of Services, and EndpointSlices that no Service uses. */
export function crossWarnings(files: FilesResult, conflicts: readonly Conflict[]): Diagnostic[] {
  const subjects = serviceSubjects(files.objects);
  const ignored = new Set(files.ignored.map(({ object }) => object));
  const clusterIPs = new Map<string, ServiceName>();
  for (const { value } of files.objects.services) {
    for (const family of FAMILIES) clusterIPs.set(value.clusterIPs[family], value.name);
  }
  clusterIPs.delete("");
  return [
    ...conflicts.flatMap((conflict) => conflictWarnings(conflict, subjects)),
    ...healthPortWarnings([...subjects.values()]),
    ...files.objects.endpointSlices.flatMap((slice) => sliceWarnings(slice, subjects, ignored, clusterIPs)),
  ];
}

/** Returns one warning for each loser of an address; a node port of two Services is an error of its own. */
function conflictWarnings(
  { frontend, winner, losers }: Conflict,
  subjects: ReadonlyMap<ServiceName, Subject>,
): Diagnostic[] {
  const holder = subjects.get(winner.service.name);
  if (holder === undefined) return [];
  const { address, protocol, port } = parseFrontendKey(frontend);
  if (address === undefined) return [];
  return losers.flatMap((loser) => {
    const subject = subjects.get(loser.service.name);
    if (subject === undefined) return [];
    const why = hasClusterIP(winner, address) ? "whose cluster IP it is" : "which is older or comes first by name";
    const reason = `${address} ${protocol} ${port} goes to ${winner.name} (${placeText(holder)}), ${why}`;
    return [warningAt(subject, conflictPath(subject, address), reason)];
  });
}

/** Returns the path of the loser's field that has the conflicting address. */
function conflictPath(subject: Subject, address: string): string {
  const written = writtenBy(subject) as RawService;
  const at = (texts: readonly (string | null | undefined)[]) =>
    texts.findIndex((text) => canonicalAddress(text ?? "") === address);
  const external = at(written.spec.externalIPs ?? []);
  if (external >= 0) return joinPath("spec.externalIPs", external);
  const ingress = at((written.status?.loadBalancer?.ingress ?? []).map(({ ip }) => ip));
  return ingress >= 0 ? joinPath("status.loadBalancer.ingress", ingress) : "spec.clusterIP";
}

/** A health check node port is a socket of the node: it can belong to one Service only, and not be a NodePort. */
function healthPortWarnings(subjects: readonly (Subject & { readonly value: Service })[]): Diagnostic[] {
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
    return [warningAt(subject, "spec.healthCheckNodePort", `${port} is also used by ${holder}`)];
  });
}

function sliceWarnings(
  from: FromFile<EndpointSlice>,
  subjects: ReadonlyMap<ServiceName, Subject & { readonly value: Service }>,
  ignored: ReadonlySet<string>,
  clusterIPs: ReadonlyMap<string, ServiceName>,
): Diagnostic[] {
  const { value: slice } = from;
  const subject: Subject = { ...from, object: `EndpointSlice ${slice.namespace}/${slice.name}` };
  const service = subjects.get(slice.service)?.value;
  const loops = slice.endpoints.flatMap(({ address }, index) => {
    const owner = clusterIPs.get(address);
    if (owner === undefined) return [];
    const path = joinPath("endpoints", index);
    return [
      warningAt(subject, path, `${address} is the cluster IP of ${owner}: connections cannot be forwarded to it`),
    ];
  });
  if (service === undefined) {
    if (subjects.size === 0 || ignored.has(`Service ${slice.service}`)) return loops;
    return [
      ...loops,
      warningAt(subject, "metadata.labels", `belongs to the Service ${slice.service}, which is not among the files`),
    ];
  }
  if (service.clusterIPs[slice.family] !== "") return loops;
  const reason = `is of a family that the Service ${service.name} does not have: its endpoints are not used`;
  return [...loops, warningAt(subject, "addressType", reason)];
}
