import type { Family } from "../base/family.ts";
import { addToGroup } from "../base/group-by.ts";
import { type ServiceName, type ServicePortKey, serviceOf } from "../model/ids.ts";
import { hasFamily, type Service } from "../model/service.ts";
import { servicePortsOf } from "../model/service-port.ts";

type Entry = readonly [ServicePortKey, string];

/** All ports of a Service in some families, with one reason. */
export class AllPorts {
  readonly service: Service;
  readonly reason: string;
  readonly #families: readonly Family[];

  constructor(service: Service, families: readonly Family[], reason: string) {
    this.service = service;
    this.reason = reason;
    this.#families = families.filter((family) => hasFamily(service, family));
  }

  get size(): number {
    return this.#families.length * this.service.ports.length;
  }

  /** Makes the keys each time, because they take memory and a Service may have thousands of ports. */
  entries(): Entry[] {
    return servicePortsOf(this.service).flatMap(({ family, key }): Entry[] =>
      this.#families.includes(family) ? [[key, this.reason]] : [],
    );
  }

  /** Whether these are the same ports; their reasons may differ. */
  hasSamePorts(other: AllPorts): boolean {
    return this.service === other.service && this.#families.join() === other.#families.join();
  }
}

/** Ports of one Service that lack something, each with the reason. */
export type ReasonsOfService = AllPorts | ReadonlyMap<ServicePortKey, string>;

/**
 * The service ports that lack something, each with the reason. All Services together may have a million such
 * ports, so their entries are only made for a reader that asks for more than the size.
 */
export class PortReasons implements ReadonlyMap<ServicePortKey, string> {
  /** No port is in two parts of a Service. */
  readonly services: ReadonlyMap<ServiceName, readonly ReasonsOfService[]>;
  readonly size: number;
  #entries: ReadonlyMap<ServicePortKey, string> | undefined;

  constructor(services: ReadonlyMap<ServiceName, readonly ReasonsOfService[]>) {
    this.services = services;
    let size = 0;
    for (const parts of services.values()) for (const part of parts) size += part.size;
    this.size = size;
  }

  /** Groups service ports by Service. */
  static of(ports: ReadonlyMap<ServicePortKey, string>): PortReasons {
    if (ports instanceof PortReasons) return ports;
    const services = new Map<ServiceName, Entry[]>();
    for (const entry of ports) addToGroup(services, serviceOf(entry[0]), entry);
    return new PortReasons(new Map(Array.from(services, ([name, all]) => [name, [new Map(all)]])));
  }

  /** Returns these and other service ports. The others' reasons take precedence. */
  with(others: ReadonlyMap<ServicePortKey, string>): PortReasons {
    const services = new Map(this.services);
    for (const [name, parts] of PortReasons.of(others).services)
      services.set(name, [new Map(entriesOf([...(services.get(name) ?? []), ...parts]))]);
    return new PortReasons(services);
  }

  get(key: ServicePortKey): string | undefined {
    return this.#all().get(key);
  }

  has(key: ServicePortKey): boolean {
    return this.#all().has(key);
  }

  keys() {
    return this.#all().keys();
  }

  values() {
    return this.#all().values();
  }

  entries() {
    return this.#all().entries();
  }

  [Symbol.iterator]() {
    return this.entries();
  }

  forEach(...args: Parameters<ReadonlyMap<ServicePortKey, string>["forEach"]>): void {
    this.#all().forEach(...args);
  }

  #all(): ReadonlyMap<ServicePortKey, string> {
    this.#entries ??= new Map([...this.services.values()].flatMap(entriesOf));
    return this.#entries;
  }
}

/** The entries of the parts of a Service. */
export function entriesOf(parts: readonly ReasonsOfService[]): Entry[] {
  return parts.flatMap((part): Entry[] => [...part.entries()]);
}
