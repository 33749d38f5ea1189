import { createRequire } from "node:module";
import * as models from "@kubernetes/client-node";
import type { Manifest } from "./kustomize.ts";

interface Field {
  readonly baseName: string;
  readonly type: string;
}

interface Model {
  getAttributeTypeMap(): readonly Field[];
}

const require = createRequire(import.meta.url);
const MODELS = models as unknown as Readonly<Record<string, Model | undefined>>;

/**
 * Returns the reasons for which the API server would reject an object: wrong types, missing or unknown
 * fields. Empty if there are none.
 */
export function manifestFaults(manifest: Manifest): string[] {
  const { apiVersion, kind } = manifest;
  const module = require(`kubernetes-models/${apiVersion}/${kind}`);
  const faults = unknownFields(manifest, `V1${kind}`, kind);
  try {
    new module[kind](manifest).validate();
  } catch (error) {
    faults.push((error as Error).message);
  }
  return faults;
}

/** The published schemas allow fields that do not exist; the client's models name those that do. */
function unknownFields(value: unknown, type: string, path: string): string[] {
  const list = /^Array<(.+)>$/.exec(type)?.[1];
  if (list !== undefined && Array.isArray(value)) {
    return value.flatMap((item, index) => unknownFields(item, list, `${path}[${index}]`));
  }
  const model = MODELS[type];
  if (typeof value !== "object" || value === null || model === undefined) return [];
  const fields = new Map(model.getAttributeTypeMap().map((field) => [field.baseName, field.type]));
  return Object.entries(value).flatMap(([name, member]) => {
    const memberType = fields.get(name);
    return memberType === undefined
      ? [`${path}.${name} does not exist`]
      : unknownFields(member, memberType, `${path}.${name}`);
  });
}
