import { execaSync } from "execa";
import { parseAllDocuments } from "yaml";
import { debianProgram } from "./debian-program.ts";

/** A Kubernetes object as in a manifest. */
export interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly [field: string]: unknown;
}

/** Returns the output of `kubectl kustomize` for a folder. @throws Error with its message */
export function buildKustomization(folder: string): Manifest[] {
  const { stdout } = execaSync(debianProgram("sid", "kubectl", "kubectl"), ["kustomize", folder]);
  return parseManifests(stdout);
}

/** Returns the objects of a file with YAML documents. */
export function parseManifests(text: string): Manifest[] {
  return parseAllDocuments(text).map((document) => document.toJS() as Manifest);
}
