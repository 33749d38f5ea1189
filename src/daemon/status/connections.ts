import { socketText } from "../../base/text.ts";
import type { ServicePort } from "../../model/service-port.ts";
import type { FrontendView } from "../../ruleset/service-view.ts";
import type { ConnectionCount, ConnectionCounts } from "../metrics/connection-metrics.ts";

/** New connections since a map element was made; undefined where they are not counted. */
export interface ConnectionLookup {
  readonly toFrontend: (port: ServicePort, frontend: FrontendView) => number | undefined;
  readonly toEndpoint: (port: ServicePort, address: string, number: number) => number | undefined;
}

/** Makes counts easy to find. */
export function connectionLookup(counts: ConnectionCounts): ConnectionLookup {
  const frontends = byTarget(counts.frontends);
  const endpoints = counts.endpoints && byTarget(counts.endpoints);
  return {
    toFrontend: (port, { address, port: number }) =>
      frontends.get(`${keyOf(port)} ${address === "" ? `nodePort:${number}` : socketText(address, number)}`),
    toEndpoint: (port, address, number) =>
      endpoints && (endpoints.get(`${keyOf(port)} ${socketText(address, number)}`) ?? 0),
  };
}

/** An endpoint has an element in each list of its service port: their sum counts. */
function byTarget(counts: readonly ConnectionCount[]): Map<string, number> {
  const sums = new Map<string, number>();
  for (const { family, namespace, service, port, protocol, target, connections } of counts) {
    const key = `${family} ${namespace}/${service}:${port}/${protocol} ${target}`;
    sums.set(key, (sums.get(key) ?? 0) + connections);
  }
  return sums;
}

function keyOf({ family, service, spec }: ServicePort): string {
  return `${family} ${service.name}:${spec.name === "" ? spec.port : spec.name}/${spec.protocol}`;
}
