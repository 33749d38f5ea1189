import { AppError } from "../../base/errors.ts";
import { parseJson, parseLongList } from "./json.ts";
import { listFiles } from "./list-files.ts";
import { type FilesResult, ObjectGatherer } from "./object-gatherer.ts";
import { readText } from "./read-text.ts";
import { type InputDocument, parseYaml } from "./yaml.ts";

/** How to read files. */
export interface ReadOptions {
  /** Go on after a file whose text cannot be used, and keep the documents of objects. */
  readonly thorough?: boolean;
  /** Services without a cluster IP are read with a stand-in, and not passed over. */
  readonly placeholders?: boolean;
}

/**
 * Reads the objects in files and directories of JSON and YAML, `-` for standard input. What comes out does not
 * depend on the order of the paths: of two objects with one name, the last by file name and document is taken.
 *
 * A single object that cannot be used is left out and named in `problems`. With `thorough`, so is a file whose text
 * cannot be used, and objects keep their documents; otherwise throws UNREADABLE_INPUT for the first such file, as it
 * does for a path that leads nowhere.
 */
export async function readFiles(
  paths: readonly string[],
  stdin: AsyncIterable<Uint8Array>,
  { thorough = false, placeholders = false }: ReadOptions = {},
): Promise<FilesResult> {
  const { files, empty } = await listFiles(paths);
  const gatherer = new ObjectGatherer({ keepDocuments: thorough, placeholders });
  for (const file of empty) gatherer.addEmpty(file, "this directory holds no .yaml, .yml or .json file");
  for (const file of files) {
    try {
      const documents = parseDocuments(await readText(file, stdin), file, !thorough);
      if (documents.length === 0) gatherer.addEmpty(file, "this file holds no document");
      for (const document of documents) gatherer.addDocument(file, document);
    } catch (error) {
      if (!thorough || !(error instanceof AppError)) throw error;
      gatherer.addUnreadable(file, error);
    }
  }
  return gatherer.result();
}

/** A text that begins as JSON is read as JSON, which is 100 times faster; it may be YAML's flow style, though. */
function parseDocuments(text: string, file: string, itemByItem: boolean): InputDocument[] {
  const list = itemByItem ? parseLongList(text, file) : undefined;
  if (list !== undefined) return [list];
  if (file.endsWith(".json")) return parseJson(text, file);
  if (!/^\s*[{[]/.test(text)) return parseYaml(text, file);
  try {
    return parseJson(text, file);
  } catch (jsonFault) {
    try {
      return parseYaml(text, file);
    } catch {
      throw jsonFault;
    }
  }
}
