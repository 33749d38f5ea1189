import { groupBy } from "../base/group-by.ts";
import { counted } from "../base/text.ts";
import { type ServiceName, type ServicePortKey, serviceOf } from "../model/ids.ts";
import { AllPorts, entriesOf, PortReasons, type ReasonsOfService } from "../ruleset/port-reasons.ts";

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
export function quarantineChanges() {
  let known = new PortReasons(new Map());
  return (given: Quarantine, refused: readonly ServicePortKey[] = []): QuarantineChange => {
    if (given === known && refused.length === 0) return NO_CHANGE;
    const now = PortReasons.of(given);
    const { before, after } = changedServices(known, now);
    known = now;
    const isNew = ([key, reason]: readonly [ServicePortKey, string]) => {
      const last = before.get(key);
      return last === undefined || !isSameReason(last, reason);
    };
    const begun = new Map([...after].filter(isNew));
    const again = [...new Set(refused)].flatMap((key) => {
      const reason = begun.has(key) ? undefined : now.get(key);
      return reason === undefined ? [] : [[key, reason] as const];
    });
    return {
      begun: quarantinedServices(begun),
      again: quarantinedServices(again),
      ended: quarantinedServices([...before].filter(([key]) => !after.has(key))),
    };
  };
}

/**
 * Returns the entries of the Services that differ in more than the numbers of a reason. The cost grows with
 * the number of Services, and with the service ports of those that differ.
 */
function changedServices(
  before: PortReasons,
  after: PortReasons,
): { readonly before: Quarantine; readonly after: Quarantine } {
  const changed = { before: new Map<ServicePortKey, string>(), after: new Map<ServicePortKey, string>() };
  const add = (to: Map<ServicePortKey, string>, parts: readonly ReasonsOfService[]) => {
    for (const [key, reason] of entriesOf(parts)) to.set(key, reason);
  };
  for (const [name, parts] of after.services) {
    const known = before.services.get(name) ?? [];
    if (areAlike(known, parts)) continue;
    add(changed.before, known);
    add(changed.after, parts);
  }
  for (const [name, parts] of before.services) if (!after.services.has(name)) add(changed.before, parts);
  return changed;
}

/** Whether two lists have the same ports with the same reasons, except for numbers. */
function areAlike(a: readonly ReasonsOfService[], b: readonly ReasonsOfService[]): boolean {
  return (
    a === b ||
    (a.length === b.length &&
      a.every((one, index) => {
        const other = b[index];
        if (!(one instanceof AllPorts && other instanceof AllPorts)) return one === other;
        return one.hasSamePorts(other) && isSameReason(one.reason, other.reason);
      }))
  );
}

function isSameReason(a: string, b: string): boolean {
  return a === b || sameForAll(a) === sameForAll(b);
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
