import { isAlias, isMap, isScalar, isSeq, type Node, type Pair, type Scalar, type YAMLMap } from "yaml";
import { isRecord } from "../../base/text.ts";

/** A YAML node that is not supported, with its offset in the text. */
export class YamlValueError extends Error {
  readonly offset: number;

  constructor(node: unknown, reason: string) {
    super(reason);
    this.name = "YamlValueError";
    this.offset = (node as Node | null)?.range?.[0] ?? 0;
  }
}

/**
 * Maximum number of nodes to which the aliases of a document may expand. Manifests stay far below it; alias
 * bombs exceed it.
 */
const MOST_ALIASED = 100_000;
const SCALAR_TYPES: readonly string[] = ["string", "number", "boolean"];

/**
 * Converts a composed document to plain data. The `yaml` package's own conversion takes hours for some short
 * texts (it prints collections that are keys, at every level), and minutes to find duplicate keys in a large
 * map.
 * @throws YamlValueError for aliases that expand to too many nodes, duplicate keys, keys that are not
 * scalars, and tags of types that JSON does not have
 */
export function plainValue(node: unknown): unknown {
  return new PlainReader().read(node);
}

/** Keeps the anchors read so far, and counts the nodes that aliases expanded to. */
class PlainReader {
  /** The values, and the numbers of their nodes with all aliases expanded. */
  readonly #anchors = new Map<string, { readonly value: unknown; readonly nodes: number }>();
  #nodes = 0;
  #aliased = 0;

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
    if (isScalar(node)) return scalarValue(node);
    if (isSeq(node)) return node.items.map((item) => this.read(item));
    if (isMap(node)) return this.#object(node);
    if (isAlias(node)) return this.#aliasedValue(node, node.source);
    throw new YamlValueError(node, "has no equivalent in JSON");
  }

  #aliasedValue(node: unknown, name: string): unknown {
    const anchored = this.#anchors.get(name);
    if (anchored === undefined)
      throw new YamlValueError(node, `alias *${name} precedes the end of its anchor`);
    this.#nodes += anchored.nodes;
    this.#aliased += anchored.nodes;
    if (this.#aliased > MOST_ALIASED)
      throw new YamlValueError(node, `aliases expand to more than ${MOST_ALIASED} nodes`);
    return anchored.value;
  }

  #object(map: YAMLMap): Record<string, unknown> {
    const entries = new Map<string, unknown>();
    const merged: { readonly from: unknown; readonly node: unknown }[] = [];
    for (const { key, value } of map.items as Pair[]) {
      const name = keyOf(key);
      if (name === "<<") merged.push({ from: this.read(value), node: value });
      else if (entries.has(name)) throw new YamlValueError(key, `duplicate key ${JSON.stringify(name)}`);
      else entries.set(name, this.read(value));
    }
    for (const { from, node } of merged) merge(entries, from, node);
    // Unlike an assignment, this defines `__proto__` like any other property.
    return Object.fromEntries(entries);
  }
}

/** Applies the merge key `<<`, which kubectl supports as well: copies the keys that a map does not have. */
function merge(entries: Map<string, unknown>, from: unknown, node: unknown): void {
  for (const source of Array.isArray(from) ? from : [from]) {
    if (!isRecord(source)) throw new YamlValueError(node, "the value of << must be a map, or a list of maps");
    for (const [name, value] of Object.entries(source)) if (!entries.has(name)) entries.set(name, value);
  }
}

function keyOf(key: unknown): string {
  if (isScalar(key) && key.anchor === undefined) return String(scalarValue(key));
  throw new YamlValueError(
    key,
    isMap(key) ? "a key must be plain text, not a map" : "a key must be plain text without an anchor",
  );
}

function scalarValue(scalar: Scalar): unknown {
  const { value } = scalar;
  if (value === null || SCALAR_TYPES.includes(typeof value)) return value;
  throw new YamlValueError(scalar, `tag ${scalar.tag ?? "of this value"} is not supported`);
}
