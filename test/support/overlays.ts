import { cpSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { buildKustomization, type Manifest } from "./kustomize.ts";

/** Where the manifests are. */
export const DEPLOY = fileURLToPath(new URL("../../deploy/", import.meta.url));

/** The overlays that are to be installed as they are, once the control plane's address is filled in. */
export const OVERLAYS = ["kubeadm", "explicit-control-plane", "dual-stack"] as const;

/** The overlay that takes the product off the nodes. */
export const CLEANUP = "cleanup" as const;

/** Builds an overlay in a copy in which the example of the control plane's address is taken for the address. */
export function buildOverlay(name: (typeof OVERLAYS)[number] | typeof CLEANUP): Manifest[] {
  const copy = mkdtempSync(join(tmpdir(), "overlays-"));
  try {
    cpSync(DEPLOY, copy, { recursive: true });
    const folder = join(copy, "overlays/explicit-control-plane");
    renameSync(join(folder, "control-plane.env.example"), join(folder, "control-plane.env"));
    return buildKustomization(join(copy, "overlays", name));
  } finally {
    rmSync(copy, { recursive: true });
  }
}
