/** One operation of a JSON Patch (RFC 6902), of the kinds that our overlays use. */
export interface PatchOperation {
  readonly op: "add" | "remove" | "replace";
  readonly path: string;
  readonly value?: unknown;
}

type Container = Record<string, unknown> | unknown[];

/** Applies a JSON Patch to a copy of a document. Throws for a path that is not there, as RFC 6902 demands. */
export function applyJsonPatch<Document>(document: Document, operations: readonly PatchOperation[]): Document {
  const patched = structuredClone(document);
  for (const operation of operations) applyOperation(patched as Container, operation);
  return patched;
}

function applyOperation(document: Container, { op, path, value }: PatchOperation): void {
  const keys = path
    .split("/")
    .slice(1)
    .map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~"));
  const last = keys.pop() ?? "";
  const parent = keys.reduce<unknown>((at, key) => (at as Record<string, unknown> | undefined)?.[key], document);
  if (typeof parent !== "object" || parent === null) throw new Error(`${op} ${path}: no such place`);
  if (op !== "add" && !(last in parent)) throw new Error(`${op} ${path}: nothing is there`);
  if (Array.isArray(parent)) changeList(parent, op, last, value);
  else if (op === "remove") delete (parent as Record<string, unknown>)[last];
  else (parent as Record<string, unknown>)[last] = value;
}

function changeList(list: unknown[], op: PatchOperation["op"], key: string, value: unknown): void {
  const index = key === "-" ? list.length : Number(key);
  if (!Number.isInteger(index) || index > list.length) throw new Error(`${op} ${key}: no such index`);
  list.splice(index, op === "add" ? 0 : 1, ...(op === "remove" ? [] : [value]));
}
