import type { Family } from "../base/family.ts";
import type { Branded } from "../base/text.ts";

// Names are made by `join`: a template makes a tree of pieces that lives as long as the name.

/** `namespace/name` of a Service. */
export type ServiceName = Branded<"ServiceName">;

/**
 * `namespace/name:port/protocol`, or `namespace/name/protocol` for a nameless port; unique among the ports of
 * all Services.
 */
export type ServicePortName = Branded<"ServicePortName">;

/** A service port in one family: `ip namespace/name:port/protocol`. The unit of rendering. */
export type ServicePortKey = Branded<"ServicePortKey">;

/** The transport protocols that a Service port can have. */
export const PROTOCOLS = ["tcp", "udp", "sctp"] as const;

export type Protocol = (typeof PROTOCOLS)[number];

/** Names a Service. Both parts must have been checked as DNS labels. */
export function serviceName(namespace: string, name: string): ServiceName {
  return [namespace, name].join("/") as ServiceName;
}

/** The namespace of a Service. */
export function namespaceOf(service: ServiceName): string {
  return service.slice(0, service.indexOf("/"));
}

/** The labels of a Service in metrics. */
export function serviceLabels(name: ServiceName): { readonly namespace: string; readonly service: string } {
  const [namespace = "", service = ""] = name.split("/");
  return { namespace, service };
}

/** Names a port of a Service; `port` is its name, "" for a nameless one. */
export function servicePortName(service: ServiceName, port: string, protocol: Protocol): ServicePortName {
  return [service, port === "" ? "" : ":", port, "/", protocol].join("") as ServicePortName;
}

/** The key of a service port in one family. */
export function servicePortKey(family: Family, name: ServicePortName): ServicePortKey {
  return [family, name].join(" ") as ServicePortKey;
}

/** The Service that a service port belongs to. */
export function serviceOf(key: ServicePortKey): ServiceName {
  const start = key.indexOf(" ") + 1;
  const name = key.indexOf("/", start) + 1;
  const colon = key.indexOf(":", name);
  return key.slice(start, colon === -1 ? key.indexOf("/", name) : colon) as ServiceName;
}
