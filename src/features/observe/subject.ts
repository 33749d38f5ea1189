import { connectionAttribution } from "../../conntrack/connection-attribution.ts";
import { EVERYWHERE, type Flow, type FlowPlace, placeOfFlows } from "../../kernel/conntrack.ts";
import { familyOf } from "../../model/ip.ts";
import { podNames } from "../../model/pod-names.ts";
import type { ServicePort } from "../../model/service-port.ts";
import { parseFrontendKey } from "../../ruleset/keys.ts";
import type { CommandObjects, CommandSubject } from "../seam/command.ts";

/** The names of what connections belong to, by the objects of a moment. */
export function namesIn(objects: CommandObjects) {
  const { state, cache, localAddresses } = objects;
  const pods = podNames(cache);
  return {
    objects,
    attribute: connectionAttribution(state, cache, localAddresses),
    /** The pod (`namespace/name`) of an address, "" if unknown. Pods of the host's network are. */
    podOf: (address: string) => (localAddresses.has(address) ? "" : (pods.get(address) ?? "")),
  };
}

/** Whether a connection is about the subject of a command. */
export function isAbout({ address, isMeant }: CommandSubject, port: ServicePort, flow: Flow): boolean {
  const ends = [flow.client, flow.destination, flow.replySource];
  return address === undefined ? (isMeant?.(port) ?? true) : ends.some((end) => end.address === address);
}

/** Maximum number of listings by address instead of one of all connections. */
const MOST_PLACES = 8;

/**
 * The smallest places with the connections of a subject, by which the kernel selects them. It cannot select
 * those to a Service while they begin and end.
 */
export function placesOf(
  { address: own, isMeant }: CommandSubject,
  { state }: Pick<CommandObjects, "state">,
): readonly FlowPlace[] {
  if (own !== undefined) return [{ family: familyOf(own) }];
  if (isMeant === undefined) return EVERYWHERE;
  const places = Object.values(state.families).flatMap((family) =>
    [...family.allServicePortRules()]
      .filter(({ port }) => isMeant(port))
      .flatMap(({ frontends, intervals }) => [...frontends, ...intervals])
      .map(({ key }) => parseFrontendKey(key).address)
      .map((address) => (address === undefined ? { family: family.table.family } : placeOfFlows(address))),
  );
  const whole = new Set(places.flatMap((place) => (place.address === undefined ? [place.family] : [])));
  const unique = new Map(
    places
      .filter(({ address, family }) => address === undefined || !whole.has(family))
      .map((place) => [place.address ?? place.family, place]),
  );
  return unique.size > MOST_PLACES ? EVERYWHERE : [...unique.values()];
}
