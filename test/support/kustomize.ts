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
  readonly components?: readonly string[];
  readonly configMapGenerator?: readonly Generator[];
  readonly images?: readonly { readonly name: string; readonly newName: string; readonly newTag: string }[];
}

interface Generator {
  readonly name: string;
  readonly envs?: readonly string[];
  readonly files?: readonly string[];
  readonly options?: { readonly labels?: Readonly<Record<string, string>> };
}

const KNOWN_FIELDS =
  "apiVersion kind namespace resources components patches images configMapGenerator generatorOptions".split(" ");

/**
 * Builds a folder as `kustomize build` does, as far as our overlays need it: resources, components, JSON patches,
 * deletions, images, and ConfigMaps from files (without a suffix). Anything else, and a missing file, is an error.
 * @param before for a component: the objects that it changes
 */
export function buildKustomization(folder: string, before: Manifest[] = []): Manifest[] {
  const file = join(folder, "kustomization.yaml");
  const kustomization = parse(readFileSync(file, "utf8")) as Kustomization;
  const unknown = Object.keys(kustomization).filter((field) => !KNOWN_FIELDS.includes(field));
  if (unknown.length > 0) throw new Error(`${file}: this builder does not know ${unknown.join(", ")}`);
  const resources = (kustomization.resources ?? []).flatMap((path) => resourcesAt(join(folder, path)));
  const generated = (kustomization.configMapGenerator ?? []).map((generator) => configMap(folder, generator));
  const components = kustomization.components ?? [];
  const built = components.reduce<Manifest[]>(
    (manifests, path) => buildKustomization(join(folder, path), manifests),
    [...before, ...resources, ...generated],
  );
  return (kustomization.patches ?? []).reduce(applyPatch, built).map((manifest) => withImages(manifest, kustomization));
}

/** The manifest with the images that a kustomization names in place of those with the same name and any tag. */
function withImages(manifest: Manifest, { images = [] }: Kustomization): Manifest {
  if (images.length === 0) return manifest;
  const replaced = (key: string, value: unknown): unknown => {
    if (key !== "image" || typeof value !== "string") return value;
    const found = images.find(({ name }) => value === name || value.startsWith(`${name}:`));
    return found === undefined ? value : `${found.newName}:${found.newTag}`;
  };
  return JSON.parse(JSON.stringify(manifest, replaced)) as Manifest;
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

function configMap(folder: string, { name, envs = [], files = [], options }: Generator): Manifest {
  const lines = envs.flatMap((file) => readFileSync(join(folder, file), "utf8").trim().split("\n"));
  const data = Object.fromEntries([
    ...lines.map((line) => line.split("=", 2)),
    ...files.map((file) => [file, readFileSync(join(folder, file), "utf8")]),
  ]);
  const labels = options?.labels === undefined ? {} : { labels: options.labels };
  return { apiVersion: "v1", kind: "ConfigMap", metadata: { name, namespace: "kube-system", ...labels }, data };
}
