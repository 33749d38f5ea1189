import { RESOURCE_NAMES, type ResourceName, type SourceState } from "./source.ts";

/** Milliseconds. A watch that breaks is opened again at once, or after a pause of some seconds. */
const OUTAGE = 60_000;

/**
 * The resources that have not been followed for a minute: the last known objects stay in use.
 * @param now milliseconds since 1970
 */
export function unfollowedResources(
  states: Readonly<Record<ResourceName, Pick<SourceState, "failure" | "lastEventAt">>>,
  now: number,
): ResourceName[] {
  return RESOURCE_NAMES.filter((name) => states[name].failure !== "" && now - states[name].lastEventAt >= OUTAGE);
}
