import { isAlias, isMap, isScalar, isSeq, type Node, type Pair, type Scalar, type YAMLMap } from "yaml";

/** Why a YAML node is not taken. */
export class YamlFault extends Error {
  readonly offset: number;

  constructor(node: unknown, reason: string) {
    super(reason);
    this.name = "YamlFault";
    this.offset = (node as Node | null)?.range?.[0] ?? 0;
  }
}

/** Nodes that aliases may stand for in one document, all told. Real manifests stay far below it, bombs do not. */
const MOST_ALIASED = 100_000;
const SCALAR_TYPES: readonly string[] = ["string", "number", "boolean"];

interface Anchored {
  readonly value: unknown;
  /** Nodes in it, aliases counted with what they stand for. */
  readonly nodes: number;
}

/**
 * Makes plain data of a composed document. The `yaml` package's own way takes hours for some short texts (it
 * writes collections that are keys out again, at every level) and minutes to find equal keys of a large map.
 *
 * Throws {@link YamlFault} for aliases that multiply without bounds, keys that are equal or no scalars, tags
 * that are none of JSON's types.
 */
export function plainValue(node: unknown): unknown {
  return new PlainReader().read(node);
}

/** Holds the anchors met so far, and how much the aliases have stood for. */
class PlainReader {
  readonly #anchors = new Map<string, Anchored>();
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
    throw new YamlFault(node, "is nothing that JSON could say");
  }

  #aliasedValue(node: unknown, name: string): unknown {
    const anchored = this.#anchors.get(name);
    if (anchored === undefined) throw new YamlFault(node, `alias *${name} stands before its anchor's end`);
    this.#nodes += anchored.nodes;
    this.#aliased += anchored.nodes;
    if (this.#aliased > MOST_ALIASED) throw new YamlFault(node, `aliases stand for more than ${MOST_ALIASED} nodes`);
    return anchored.value;
  }

  #object(map: YAMLMap): Record<string, unknown> {
    const object: Record<string, unknown> = {};
    const merged: { readonly from: unknown; readonly node: unknown }[] = [];
    for (const { key, value } of map.items as Pair[]) {
      const name = keyOf(key);
      if (name === "<<") merged.push({ from: this.read(value), node: value });
      else if (Object.hasOwn(object, name)) throw new YamlFault(key, `key ${JSON.stringify(name)} is there twice`);
      else define(object, name, this.read(value));
    }
    for (const { from, node } of merged) merge(object, from, node);
    return object;
  }
}

/** Not by assignment, which for `__proto__` would do something else. */
function define(object: Record<string, unknown>, name: string, value: unknown): void {
  Object.defineProperty(object, name, { value, writable: true, enumerable: true, configurable: true });
}

/** The merge key `<<`, which kubectl takes as well: what is not there yet is taken over. */
function merge(object: Record<string, unknown>, from: unknown, node: unknown): void {
  for (const source of Array.isArray(from) ? from : [from]) {
    if (typeof source !== "object" || source === null || Array.isArray(source))
      throw new YamlFault(node, "what is merged with << must be a map, or a list of maps");
    for (const [name, value] of Object.entries(source)) {
      if (!Object.hasOwn(object, name)) define(object, name, value);
    }
  }
}

function keyOf(key: unknown): string {
  if (isScalar(key) && key.anchor === undefined) return String(scalarValue(key));
  throw new YamlFault(key, "a key must be a plain word, number or text");
}

function scalarValue(scalar: Scalar): unknown {
  const { value } = scalar;
  if (value === null || SCALAR_TYPES.includes(typeof value)) return value;
  throw new YamlFault(scalar, `tag ${scalar.tag ?? "of this value"} is not taken`);
}
