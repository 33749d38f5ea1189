import { isAlias, isMap, isScalar, isSeq, type Node, type Pair, type Scalar, type YAMLMap } from "yaml";
import { isRecord } from "../../base/text.ts";

/**
 * Maximum number of nodes to which the aliases of a document may expand. Manifests stay far below it; alias
 * bombs exceed it.
 */
const MOST_ALIASED = 100_000;
const SCALAR_TYPES: readonly string[] = ["string", "number", "boolean"];

/**
 * Converts a composed document to plain data. The `yaml` package's own conversion takes hours for some short
 * texts (it prints collections that are keys, at every level), and minutes to find duplicate keys in a large
 * map. Throws for aliases that expand to too many nodes, duplicate keys, keys that are not scalars, and tags
 * of types that JSON does not have.
 * @param errorAt makes the error about a node, with its offset in the text and the reason
 */
export function plainValue(node: unknown, errorAt: (offset: number, reason: string) => Error): unknown {
  return new PlainReader((at, reason) => errorAt((at as Node | null)?.range?.[0] ?? 0, reason)).read(node);
}

/** Keeps the anchors read so far, and counts the nodes that aliases expanded to. */
class PlainReader {
  readonly #errorOf: (node: unknown, reason: string) => Error;
  /** The values, and the numbers of their nodes with all aliases expanded. */
  readonly #anchors = new Map<string, { readonly value: unknown; readonly nodes: number }>();
  #nodes = 0;
  #aliased = 0;

  constructor(errorOf: (node: unknown, reason: string) => Error) {
    this.#errorOf = errorOf;
  }

  read(node: unknown): unknown {
    const before = this.#nodes;
    this.#nodes += 1;
    const value = this.#valueOf(node);
    const anchor = isScalar(node) || isMap(node) || isSeq(node) ? node.anchor : undefined;
    if (anchor !== undefined) this.#anchors.set(anchor, { value, nodes: this.#nodes - before });
    return value;
  }

  #valueOf(node: unknown): unknown {
    if (node === null) return null;
    if (isScalar(node)) return this.#scalar(node);
    if (isSeq(node)) return node.items.map((item) => this.read(item));
    if (isMap(node)) return this.#object(node);
    if (isAlias(node)) return this.#aliasedValue(node, node.source);
    throw this.#errorOf(node, "has no equivalent in JSON");
  }

  #scalar(scalar: Scalar): unknown {
    const { value } = scalar;
    if (value === null || SCALAR_TYPES.includes(typeof value)) return value;
    throw this.#errorOf(scalar, `tag ${scalar.tag ?? "of this value"} is not supported`);
  }

  #aliasedValue(node: unknown, name: string): unknown {
    const anchored = this.#anchors.get(name);
    if (anchored === undefined) throw this.#errorOf(node, `alias *${name} precedes the end of its anchor`);
    this.#nodes += anchored.nodes;
    this.#aliased += anchored.nodes;
    if (this.#aliased > MOST_ALIASED)
      throw this.#errorOf(node, `aliases expand to more than ${MOST_ALIASED} nodes`);
    return anchored.value;
  }

  #object(map: YAMLMap): Record<string, unknown> {
    const entries = new Map<string, unknown>();
    const merged: { readonly from: unknown; readonly node: unknown }[] = [];
    for (const { key, value } of map.items as Pair[]) {
      const name = this.#key(key);
      if (name === "<<") merged.push({ from: this.read(value), node: value });
      else if (entries.has(name)) throw this.#errorOf(key, `duplicate key ${JSON.stringify(name)}`);
      else entries.set(name, this.read(value));
    }
    for (const { from, node } of merged) this.#merge(entries, from, node);
    // Unlike an assignment, this defines `__proto__` like any other property.
    return Object.fromEntries(entries);
  }

  #key(key: unknown): string {
    if (isScalar(key) && key.anchor === undefined) return String(this.#scalar(key));
    throw this.#errorOf(
      key,
      isMap(key) ? "a key must be plain text, not a map" : "a key must be plain text without an anchor",
    );
  }

  /** Applies the merge key `<<`, which kubectl supports as well: copies the keys that a map does not have. */
  #merge(entries: Map<string, unknown>, from: unknown, node: unknown): void {
    for (const source of Array.isArray(from) ? from : [from]) {
      if (!isRecord(source)) throw this.#errorOf(node, "the value of << must be a map, or a list of maps");
      for (const [name, value] of Object.entries(source)) if (!entries.has(name)) entries.set(name, value);
    }
  }
}
