import { type ByFamily, byFamily, type Family } from "../../base/family.ts";
import type { ServiceName, ServicePortKey } from "../../model/ids.ts";
import type { ObjectCache } from "../../model/object-cache.ts";
import type { Service } from "../../model/service.ts";
import { servicePortsOf } from "../../model/service-port.ts";
import { keysInSet } from "../../ruleset/ejection.ts";
import { contextOf, type NodeContext } from "../../ruleset/node-context.ts";
import type { RulesetState } from "../../ruleset/ruleset-state.ts";
import type { FinishedSync } from "../seam/daemon-part.ts";
import { checkOf, type PassiveHealthCheck } from "./check.ts";
import { ATTEMPTS } from "./rules.ts";

/** A service port whose endpoints are watched. */
export interface WatchedPort {
  readonly service: ServiceName;
  readonly check: PassiveHealthCheck;
  /** All of its endpoints that are watched, including ejected ones. */
  readonly targets: readonly string[];
}

/** The endpoints of a family by `address . port`, each with the service ports that have it. */
type Targets = ReadonlyMap<string, ReadonlyMap<ServicePortKey, WatchedPort>>;

interface KnownPort {
  readonly family: Family;
  readonly key: ServicePortKey;
  readonly port: WatchedPort;
}

/**
 * Knows which endpoints are watched, and for which service ports. An update costs as much as the Services
 * that changed.
 */
export class WatchedEndpoints {
  readonly #targets: ByFamily<Map<string, Map<ServicePortKey, WatchedPort>>> = byFamily(() => new Map());
  readonly #ports = new Map<ServiceName, readonly KnownPort[]>();

  /** Adopts the rules of the Services that a sync rendered. */
  update(
    cache: Pick<ObjectCache, "service">,
    state: RulesetState,
    { rendered, nodeContext }: Pick<FinishedSync, "rendered" | "nodeContext">,
  ): void {
    for (const name of rendered) {
      for (const { family, key, port } of this.#ports.get(name) ?? []) this.#remove(family, key, port);
      const found = watchedPorts(cache.service(name), state, nodeContext);
      if (found.length === 0) this.#ports.delete(name);
      else this.#ports.set(name, found);
      for (const { family, key, port } of found) this.#add(family, key, port);
    }
  }

  /** The watched endpoints of a family; live. */
  of(family: Family): Targets {
    return this.#targets[family];
  }

  /** Whether an endpoint of a Service is watched. */
  hasService(name: ServiceName): boolean {
    return this.#ports.has(name);
  }

  /** The service ports that watch an endpoint, in no particular order. */
  portsOf(family: Family, target: string): WatchedPort[] {
    return [...(this.#targets[family].get(target)?.values() ?? [])];
  }

  #add(family: Family, key: ServicePortKey, port: WatchedPort): void {
    const targets = this.#targets[family];
    for (const target of port.targets) {
      const ports = targets.get(target) ?? new Map<ServicePortKey, WatchedPort>();
      targets.set(target, ports.set(key, port));
    }
  }

  #remove(family: Family, key: ServicePortKey, { targets }: WatchedPort): void {
    for (const target of targets) {
      const ports = this.#targets[family].get(target);
      if (ports?.delete(key) && ports.size === 0) this.#targets[family].delete(target);
    }
  }
}

function watchedPorts(
  service: Service | undefined,
  { families }: RulesetState,
  nodeContext: NodeContext,
): readonly KnownPort[] {
  return (service === undefined ? [] : servicePortsOf(service)).flatMap(({ family, key }) => {
    const [rules, context] = [families[family]?.servicePortRules(key), contextOf(nodeContext, family)];
    if (rules === undefined || context === undefined) return [];
    const [check, targets] = [checkOf(rules.port, context), keysInSet(rules, ATTEMPTS)];
    if (check === undefined || targets.length === 0) return [];
    return [{ family, key, port: { service: rules.port.service.name, check, targets } }];
  });
}
