import { groupBy } from "../base/group-by.ts";
import { counted } from "../base/text.ts";
import { type ServiceName, type ServicePortKey, serviceOf } from "../model/ids.ts";

/**
 * Service ports that have no rules because the kernel refuses these or they exceed a limit, each with the
 * reason.
 */
export type Quarantine = ReadonlyMap<ServicePortKey, string>;

/** Service ports of one Service that are quarantined for one reason. */
export interface QuarantinedService {
  readonly service: ServiceName;
  /** At least one. */
  readonly servicePorts: readonly ServicePortKey[];
  /** Its numbers are those of the first service port. */
  readonly reason: string;
}

/** What changed in a quarantine. */
export interface QuarantineChange {
  readonly begun: readonly QuarantinedService[];
  /** Quarantined Services that the kernel refused again. */
  readonly again: readonly QuarantinedService[];
  readonly ended: readonly QuarantinedService[];
}

/** The change of a quarantine that did not change. */
const NO_CHANGE: QuarantineChange = { begun: [], again: [], ended: [] };

/**
 * Makes a function that reports changes of a quarantine once for each Service and reason: a Service may have
 * thousands of ports.
 * @returns compares a quarantine with that of the last call; `refused` are service ports that the kernel has
 * just refused
 */
export function quarantineChanges(): (
  now: Quarantine,
  refused?: readonly ServicePortKey[],
) => QuarantineChange {
  let known: Quarantine = new Map();
  return (now, refused = []) => {
    if (now === known && refused.length === 0) return NO_CHANGE;
    const before = known;
    known = now;
    const isNew = (key: ServicePortKey, reason: string) => {
      const last = before.get(key);
      return last !== reason && sameForAll(last ?? "") !== sameForAll(reason);
    };
    const again = new Map(refused.map((key) => [key, now.get(key)]));
    return {
      begun: quarantinedServices([...now].filter(([key, reason]) => isNew(key, reason))),
      again: quarantinedServices(
        [...again].flatMap(([key, reason]) =>
          reason === undefined || isNew(key, reason) ? [] : [[key, reason]],
        ),
      ),
      ended: quarantinedServices([...before].filter(([key]) => !now.has(key))),
    };
  };
}

/**
 * Formats the service ports: the name of a single one (`ip shop/web:http/tcp`), or their Service and number.
 */
export function quarantinedText({ service, servicePorts }: QuarantinedService): string {
  const [first = "", ...others] = servicePorts;
  return others.length === 0 ? first : `${service} (${counted(servicePorts.length, "service port")})`;
}

/** A reason without numbers: the excess over a budget changes with every endpoint. */
function sameForAll(reason: string): string {
  return reason.replace(/\d+/g, "");
}

/** Groups quarantined service ports by Service and reason. */
export function quarantinedServices(
  entries: Iterable<readonly [ServicePortKey, string]>,
): QuarantinedService[] {
  const groups = groupBy(entries, ([key, reason]) => `${serviceOf(key)} ${sameForAll(reason)}`);
  return [...groups.values()].map((group) => {
    const [[first, reason]] = group as [readonly [ServicePortKey, string]];
    return { service: serviceOf(first), servicePorts: group.map(([key]) => key), reason };
  });
}
