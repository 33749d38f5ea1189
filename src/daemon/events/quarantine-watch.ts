import { counted } from "../../base/text.ts";
import { type ServiceName, type ServicePortKey, serviceOf } from "../../model/ids.ts";
import type { Quarantine } from "../../sync/sync-report.ts";

/** Service ports of one Service that are quarantined for one reason. */
export interface QuarantinedService {
  readonly service: ServiceName;
  /** One at least. */
  readonly servicePorts: readonly ServicePortKey[];
  /** Its numbers are those of the first service port. */
  readonly reason: string;
}

/** What changed in a quarantine. */
export interface QuarantineChange {
  readonly begun: readonly QuarantinedService[];
  readonly ended: readonly QuarantinedService[];
}

/**
 * Tells what is new in a quarantine, once for each Service and reason: a Service may have thousands of ports.
 * @returns compares a quarantine with that of its last call; of the service ports in `again` is told again in any case
 */
export function quarantineWatch(): (now: Quarantine, again?: readonly ServicePortKey[]) => QuarantineChange {
  let known: Quarantine = new Map();
  return (now, again = []) => {
    if (now === known && again.length === 0) return { begun: [], ended: [] };
    const before = known;
    known = now;
    const repeated = new Set(again);
    const isNew = ([key, reason]: readonly [ServicePortKey, string]) =>
      repeated.has(key) || sameForAll(before.get(key) ?? "") !== sameForAll(reason);
    return {
      begun: byService([...now].filter(isNew)),
      ended: byService([...before].filter(([key]) => !now.has(key))),
    };
  };
}

/** The service ports for people: the name of one (`ip shop/web:http/tcp`), or the Service with how many. */
export function quarantinedText({ service, servicePorts }: QuarantinedService): string {
  const [first = "", ...others] = servicePorts;
  return others.length === 0 ? first : `${service} (${counted(servicePorts.length, "service port")})`;
}

/** A reason without its numbers: how much a Service exceeds its budget changes with every endpoint. */
function sameForAll(reason: string): string {
  return reason.replace(/\d+/g, "");
}

function byService(entries: readonly (readonly [ServicePortKey, string])[]): QuarantinedService[] {
  const groups = new Map<string, QuarantinedService & { readonly servicePorts: ServicePortKey[] }>();
  for (const [key, reason] of entries) {
    const service = serviceOf(key);
    const known = groups.get(`${service} ${sameForAll(reason)}`);
    if (known === undefined) groups.set(`${service} ${sameForAll(reason)}`, { service, servicePorts: [key], reason });
    else known.servicePorts.push(key);
  }
  return [...groups.values()];
}
