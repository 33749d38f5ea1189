import { cpSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { buildKustomization, type Manifest } from "./kustomize.ts";

/** The folder of the manifests. */
export const DEPLOY = fileURLToPath(new URL("../../deploy/", import.meta.url));

/** The overlays that can be installed unchanged once the control plane's address is filled in. */
export const OVERLAYS = ["kubeadm", "explicit-control-plane", "dual-stack", "k3s", "rke2", "talos"] as const;

/** The overlay that removes the product from the nodes. */
export const CLEANUP = "cleanup" as const;

/** Builds an overlay in a copy of the manifests that uses the example of the control plane's address. */
export function buildOverlay(name: (typeof OVERLAYS)[number] | typeof CLEANUP): Manifest[] {
  return buildInCopy((copy) => join(copy, "overlays", name));
}

/** The components, which a kustomization adds to an overlay. */
export type ComponentName = "host-settings" | "migration-port" | "monitoring" | "reserve-nodeports";

/** Builds a kustomization of an overlay and a component. */
export function buildWithComponent(name: (typeof OVERLAYS)[number], component: ComponentName): Manifest[] {
  return buildOwn({ resources: [`../overlays/${name}`], components: [`../${component}`] });
}

/** Builds a user's own kustomization, in a folder beside `overlays`. */
export function buildOwn(kustomization: object): Manifest[] {
  return buildInCopy((copy) => {
    const folder = join(copy, "own");
    mkdirSync(folder);
    // JSON is valid YAML.
    writeFileSync(join(folder, "kustomization.yaml"), JSON.stringify(kustomization));
    return folder;
  });
}

function buildInCopy(folderOf: (copy: string) => string): Manifest[] {
  const copy = mkdtempSync(join(tmpdir(), "overlays-"));
  try {
    cpSync(DEPLOY, copy, { recursive: true });
    const folder = join(copy, "overlays/explicit-control-plane");
    renameSync(join(folder, "control-plane.env.example"), join(folder, "control-plane.env"));
    return buildKustomization(folderOf(copy));
  } finally {
    rmSync(copy, { recursive: true });
  }
}
