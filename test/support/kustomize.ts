import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { parse, parseAllDocuments } from "yaml";
import { applyJsonPatch, type PatchOperation } from "./json-patch.ts";

/** A Kubernetes object as it is written in a manifest. */
export interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly [field: string]: unknown;
}

interface Kustomization {
  readonly resources?: readonly string[];
  readonly patches?: readonly { readonly target: { kind: string; name: string }; readonly patch: string }[];
  readonly configMapGenerator?: readonly { readonly name: string; readonly envs: readonly string[] }[];
}

const KNOWN_FIELDS = "apiVersion kind namespace resources patches configMapGenerator generatorOptions".split(" ");

/**
 * Builds a folder as `kustomize build` does, as far as our overlays need it: resources, JSON patches, deletions, and
 * ConfigMaps from env files (without a suffix). Anything else, and a file that is missing, is an error.
 */
export function buildKustomization(folder: string): Manifest[] {
  const file = join(folder, "kustomization.yaml");
  const kustomization = parse(readFileSync(file, "utf8")) as Kustomization;
  const unknown = Object.keys(kustomization).filter((field) => !KNOWN_FIELDS.includes(field));
  if (unknown.length > 0) throw new Error(`${file}: this builder does not know ${unknown.join(", ")}`);
  const resources = (kustomization.resources ?? []).flatMap((path) => resourcesAt(join(folder, path)));
  const generated = (kustomization.configMapGenerator ?? []).map(({ name, envs }) => configMap(folder, name, envs));
  return (kustomization.patches ?? []).reduce(applyPatch, [...resources, ...generated]);
}

/** The objects of a manifest's file, or of a folder with a kustomization. */
function resourcesAt(path: string): Manifest[] {
  if (existsSync(path) && statSync(path).isDirectory()) return buildKustomization(path);
  return parseAllDocuments(readFileSync(path, "utf8")).map((document) => document.toJS() as Manifest);
}

function applyPatch(
  manifests: Manifest[],
  { target, patch }: NonNullable<Kustomization["patches"]>[number],
): Manifest[] {
  const isTarget = ({ kind, metadata }: Manifest) => kind === target.kind && metadata.name === target.name;
  if (!manifests.some(isTarget)) throw new Error(`no ${target.kind} ${target.name} to patch`);
  const operations: unknown = parse(patch);
  if (Array.isArray(operations)) {
    const apply = (manifest: Manifest) => applyJsonPatch(manifest, operations as PatchOperation[]);
    return manifests.map((manifest) => (isTarget(manifest) ? apply(manifest) : manifest));
  }
  if ((operations as Record<string, unknown>).$patch !== "delete") throw new Error("only JSON patches and deletions");
  return manifests.filter((manifest) => !isTarget(manifest));
}

function configMap(folder: string, name: string, envs: readonly string[]): Manifest {
  const lines = envs.flatMap((file) => readFileSync(join(folder, file), "utf8").trim().split("\n"));
  const data = Object.fromEntries(lines.map((line) => line.split("=", 2)));
  return { apiVersion: "v1", kind: "ConfigMap", metadata: { name, namespace: "kube-system" }, data };
}
