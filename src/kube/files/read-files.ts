import { AppError, messageOf } from "../../base/errors.ts";
import { type UnservedServices, unservedAmong } from "../decode/ignored-service.ts";
import { positionAt, unreadable } from "./diagnostic.ts";
import { parseJson } from "./json.ts";
import { listFiles } from "./list-files.ts";
import { type FilesResult, ObjectGatherer, type ReadOptions, writtenBy } from "./object-gatherer.ts";
import { readText } from "./read-text.ts";
import { type InputDocument, parseYaml } from "./yaml.ts";

/** An empty standard input. */
export const NO_INPUT: AsyncIterable<Uint8Array> = { async *[Symbol.asyncIterator]() {} };

/**
 * Reads the objects in files and directories of JSON and YAML, `-` for standard input. The result does not
 * depend on the order of the paths: of two objects with the same name, the last by file name and document is
 * used.
 *
 * Invalid objects are excluded and have an entry in `diagnostics`. With `thorough`, malformed files do, too.
 * @throws AppError UNREADABLE_INPUT for a path that does not exist or cannot be read, and without `thorough`
 * for a malformed file
 */
export async function readFiles(
  paths: readonly string[],
  stdin: AsyncIterable<Uint8Array>,
  options: ReadOptions = {},
): Promise<FilesResult> {
  const { thorough = false } = options;
  const { files, empty } = await listFiles(paths);
  const gatherer = new ObjectGatherer(options);
  for (const file of empty) gatherer.addEmpty(file, "this directory contains no .yaml, .yml or .json file");
  for (const file of files) {
    try {
      const documents = parseText(await readText(file, stdin), file, thorough);
      if (documents.length === 0) gatherer.addEmpty(file, "this file contains no document");
      for (const document of documents) gatherer.addDocument(file, document);
    } catch (error) {
      if (!thorough || !(error instanceof AppError) || error.cause !== undefined) throw error;
      gatherer.addMalformed(file, error);
    }
  }
  return gatherer.result();
}

/** A line with an expression of a Go template that is not in quotes or a comment. */
const TEMPLATE = /^[^"'#\n]*\{\{/m;

/**
 * Parses a text. Its error says if the text looks like a template of Helm, which is not YAML until it is
 * rendered.
 */
function parseText(text: string, file: string, thorough: boolean): InputDocument[] {
  try {
    return parseDocuments(text, file, thorough);
  } catch (error) {
    const found = TEMPLATE.exec(text);
    if (found === null || !(error instanceof AppError) || error.evidence.line === undefined) throw error;
    const position = positionAt(text, found.index + found[0].length - 1);
    const why = `line ${error.evidence.line}: ${error.evidence.reason}`;
    throw unreadable(
      file,
      `looks like a template: render it first, as with helm template (${why})`,
      position,
    );
  }
}

/**
 * A text that looks like JSON is parsed as JSON first, which is 100 times faster; it may be YAML in flow
 * style.
 */
function parseDocuments(text: string, file: string, thorough: boolean): InputDocument[] {
  if (file.endsWith(".json")) return parseJson(text, file, thorough);
  if (!/^\s*(?:\{(?!\{)|\[)/.test(text)) return parseYaml(text, file);
  try {
    return parseJson(text, file, thorough);
  } catch (jsonError) {
    try {
      return parseYaml(text, file);
    } catch {
      throw jsonError;
    }
  }
}

/**
 * Returns the Services of files as they are written, ignored ones included. The documents must have been
 * kept.
 */
export function writtenServices({ objects, ignored }: FilesResult): unknown[] {
  return [...objects.services, ...ignored].map((service) => writtenBy(service));
}

/** Reads the Services that nft-proxy does not serve from files. Never rejects. */
export async function unservedInFiles(paths: readonly string[]): Promise<UnservedServices> {
  try {
    return unservedAmong(writtenServices(await readFiles(paths, NO_INPUT, { thorough: true })));
  } catch (error) {
    return { ignored: [], loadBalancers: [], problem: messageOf(error) };
  }
}
