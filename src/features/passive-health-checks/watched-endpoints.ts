import { addToSet, removeFromSet } from "../../base/group-by.ts";
import type { ServiceName } from "../../model/ids.ts";
import type { ObjectCache } from "../../model/object-cache.ts";
import type { Service } from "../../model/service.ts";
import { servicePortsOf } from "../../model/service-port.ts";
import { keysInSet } from "../../ruleset/ejection.ts";
import { contextOf, type NodeContext } from "../../ruleset/node-context.ts";
import type { RulesetState } from "../../ruleset/ruleset-state.ts";
import type { FinishedSync } from "../seam/daemon-part.ts";
import { checkOf } from "./check.ts";
import { ATTEMPTS } from "./rules.ts";

/** A service port with its watched endpoints, `targets`, among them ejected ones. */
export type WatchedPort = Readonly<ReturnType<typeof watchedPorts>[number]>;

/**
 * Knows which endpoints are watched, and for which service ports. An update costs as much as the Services
 * that changed.
 */
export class WatchedEndpoints {
  /** By `address . port`, each with the service ports that have it. */
  readonly #targets = new Map<string, Set<WatchedPort>>();
  readonly #ports = new Map<ServiceName, readonly WatchedPort[]>();

  /** Adopts the rules of the Services that a sync rendered. */
  update(
    cache: Pick<ObjectCache, "service">,
    state: RulesetState,
    { rendered, nodeContext }: Pick<FinishedSync, "rendered" | "nodeContext">,
  ): void {
    for (const name of rendered) {
      for (const port of this.#ports.get(name) ?? [])
        for (const target of port.targets) removeFromSet(this.#targets, target, port);
      const found = watchedPorts(cache.service(name), state, nodeContext);
      if (found.length === 0) this.#ports.delete(name);
      else this.#ports.set(name, found);
      for (const port of found) for (const target of port.targets) addToSet(this.#targets, target, port);
    }
  }

  /** The number of watched endpoints. */
  get size(): number {
    return this.#targets.size;
  }

  /** Whether an endpoint is watched. */
  has(target: string): boolean {
    return this.#targets.has(target);
  }

  /** Whether an endpoint of a Service is watched. */
  hasService(name: ServiceName): boolean {
    return this.#ports.has(name);
  }

  /** The service ports that watch an endpoint, in no particular order. */
  portsOf(target: string): WatchedPort[] {
    return [...(this.#targets.get(target) ?? [])];
  }

  /** The Services that have an endpoint, sorted. */
  servicesOf(target: string): ServiceName[] {
    return [...new Set(this.portsOf(target).map(({ service }) => service))].sort();
  }
}

function watchedPorts(service: Service | undefined, { families }: RulesetState, nodeContext: NodeContext) {
  return (service === undefined ? [] : servicePortsOf(service)).flatMap(({ family, key }) => {
    const [rules, context] = [families[family]?.servicePortRules(key), contextOf(nodeContext, family)];
    if (rules === undefined || context === undefined) return [];
    const [check, targets] = [checkOf(rules.port, context), keysInSet(rules, ATTEMPTS)];
    if (check === undefined || targets.length === 0) return [];
    return [{ family, service: rules.port.service.name, check, targets }];
  });
}
