import type { Stats } from "node:fs";
import { readdir, realpath, stat } from "node:fs/promises";
import { join, normalize } from "node:path";
import { systemReason, unreadable } from "./diagnostic.ts";

const MANIFEST = /\.(?:ya?ml|json)$/;

/** The files that some paths refer to. */
export interface FileList {
  /** Sorted, without duplicates. `-` is standard input. */
  readonly files: readonly string[];
  /** The directories among the paths that contain no manifest. */
  readonly empty: readonly string[];
}

/**
 * Lists files: each path that is a file, and the `.yaml`, `.yml` and `.json` files of each directory at any
 * depth. Hidden entries are ignored, among them the `..data` of a mounted ConfigMap, to which its visible
 * links point.
 * @throws AppError UNREADABLE_INPUT for a path that does not exist or cannot be read
 */
export async function listFiles(paths: readonly string[]): Promise<FileList> {
  const files = new Set<string>();
  const empty: string[] = [];
  for (const path of paths) {
    if (path === "-" || !(await statOf(path)).isDirectory()) files.add(normalize(path));
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
    const stats = await statOf(path, !MANIFEST.test(name));
    if (stats.isDirectory()) for (const found of await manifestsUnder(path, visited)) result.push(found);
    else if (stats.isFile() && MANIFEST.test(name)) result.push(path);
  }
  return result;
}

/** @param mayBeMissing true for an entry that is not a manifest: it may be a dangling link */
async function statOf(path: string, mayBeMissing = false): Promise<Pick<Stats, "isDirectory" | "isFile">> {
  try {
    return await stat(path);
  } catch (error) {
    if (mayBeMissing) return { isDirectory: () => false, isFile: () => false };
    throw unreadable(path, systemReason(error));
  }
}

async function attempt<T>(path: string, action: () => Promise<T>): Promise<T> {
  try {
    return await action();
  } catch (error) {
    throw unreadable(path, systemReason(error));
  }
}
