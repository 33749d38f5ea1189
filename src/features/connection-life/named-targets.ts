import { addToCount } from "../../base/group-by.ts";
import type { EndpointSlice } from "../../model/endpoint-slice.ts";
import type { ServiceName } from "../../model/ids.ts";
import { joinParts, splitParts } from "../../nft/elements.ts";

/**
 * Values for some TCP targets (`address . port`). Those that a slice names are found without making the names
 * of its others: a slice may have thousands of ports.
 */
export class TargetMap<Value> {
  readonly #addresses = new Map<string, Map<number, Value>>();

  get(target: string): Value | undefined {
    const [address, port] = partsOf(target);
    return this.#addresses.get(address)?.get(port);
  }

  set(target: string, value: Value): void {
    const [address, port] = partsOf(target);
    const ports = this.#addresses.get(address) ?? new Map<number, Value>();
    this.#addresses.set(address, ports.set(port, value));
  }

  delete(target: string): void {
    const [address, port] = partsOf(target);
    const ports = this.#addresses.get(address);
    if (ports?.delete(port) && ports.size === 0) this.#addresses.delete(address);
  }

  *values(): Generator<Value> {
    for (const ports of this.#addresses.values()) yield* ports.values();
  }

  /** The values of the targets that a slice names, once for each of its endpoints. */
  *namedBy(slice: Pick<EndpointSlice, "endpoints" | "ports">): Generator<Value> {
    if (this.#addresses.size === 0) return;
    let numbers: ReadonlySet<number> | undefined;
    for (const { address } of slice.endpoints) {
      const ports = this.#addresses.get(address);
      if (ports === undefined) continue;
      numbers ??= new Set(tcpPorts(slice));
      for (const [port, value] of ports) if (numbers.has(port)) yield value;
    }
  }
}

function partsOf(target: string): readonly [string, number] {
  const [address = "", port] = splitParts(target);
  return [address, Number(port)];
}

/** The TCP ports of a slice, as numbers. */
export function tcpPorts({ ports }: Pick<EndpointSlice, "ports">): number[] {
  return ports.flatMap(({ protocol, port }) => (protocol === "tcp" ? [port] : []));
}

/**
 * The Services whose slices name some TCP targets. They are found by one search of all slices (100,000
 * endpoints take 4 to 12 ms) and then follow the changes.
 */
export class NamedTargets {
  /** The number of endpoints of each Service that name a target. */
  readonly #targets = new TargetMap<Map<ServiceName, number>>();

  constructor(targets: Iterable<string>, slices: Iterable<EndpointSlice>) {
    for (const target of targets) this.#targets.set(target, new Map());
    for (const slice of slices) this.#count(slice, 1);
  }

  /** Whether the Services of a target are known. */
  knows(target: string): boolean {
    return this.#targets.get(target) !== undefined;
  }

  servicesOf(target: string): readonly ServiceName[] {
    return [...(this.#targets.get(target)?.keys() ?? [])];
  }

  /** Replaces a slice; undefined for none. */
  replace(before: EndpointSlice | undefined, after: EndpointSlice | undefined): void {
    if (before !== undefined) this.#count(before, -1);
    if (after !== undefined) this.#count(after, 1);
  }

  #count(slice: EndpointSlice, added: 1 | -1): void {
    for (const services of this.#targets.namedBy(slice)) addToCount(services, slice.service, added);
  }
}

/** Returns up to `most` targets that one slice names and another, of the same Service, does not. */
export function targetsLeft(
  before: EndpointSlice,
  after: EndpointSlice | undefined,
  most: number,
): readonly string[] {
  const addresses = new Set([...(after?.endpoints ?? [])].map(({ address }) => address));
  const kept = new Set(after && tcpPorts(after));
  const ports = tcpPorts(before);
  const closed = ports.filter((port) => !kept.has(port));
  const left = new Set<string>();
  for (const { address } of before.endpoints) {
    for (const port of addresses.has(address) ? closed : ports) {
      if (left.size >= most) return [...left];
      left.add(joinParts(address, port));
    }
  }
  return [...left];
}
