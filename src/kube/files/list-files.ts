import { readdir, realpath, stat } from "node:fs/promises";
import { join, normalize } from "node:path";
import { systemReason, unreadable } from "./diagnostic.ts";

const MANIFEST = /\.(?:ya?ml|json)$/;

/**
 * Lists files: each path that is a file, and the `.yaml`, `.yml` and `.json` files of each directory at any
 * depth. Hidden entries are ignored, among them the `..data` of a mounted ConfigMap, to which its visible
 * links point.
 * @returns the files, sorted and without duplicates, `-` for standard input; and the directories among the
 * paths that contain no manifest
 * @throws AppError UNREADABLE_INPUT for a path that does not exist or cannot be read
 */
export async function listFiles(
  paths: readonly string[],
): Promise<{ readonly files: readonly string[]; readonly empty: readonly string[] }> {
  const files = new Set<string>();
  const empty: string[] = [];
  for (const path of paths) {
    if (path === "-" || !(await attempt(path, () => stat(path))).isDirectory()) files.add(normalize(path));
    else {
      const found = await manifestsUnder(path, new Set());
      for (const file of found) files.add(file);
      if (found.length === 0) empty.push(path);
    }
  }
  return { files: [...files].sort(), empty };
}

/** @param visited real paths of the directories visited so far, because links may form a cycle */
async function manifestsUnder(directory: string, visited: Set<string>): Promise<string[]> {
  const real = await attempt(directory, () => realpath(directory));
  if (visited.has(real)) return [];
  visited.add(real);
  const result: string[] = [];
  const names = await attempt(directory, () => readdir(directory));
  for (const name of names.filter((each) => !each.startsWith(".")).sort()) {
    const path = join(directory, name);
    const isManifest = MANIFEST.test(name);
    // Another entry may be a dangling link.
    const stats = isManifest
      ? await attempt(path, () => stat(path))
      : await stat(path).catch(() => undefined);
    if (stats?.isDirectory()) for (const found of await manifestsUnder(path, visited)) result.push(found);
    else if (isManifest && stats?.isFile()) result.push(path);
  }
  return result;
}

async function attempt<T>(path: string, action: () => Promise<T>): Promise<T> {
  try {
    return await action();
  } catch (error) {
    throw unreadable(path, systemReason(error));
  }
}
