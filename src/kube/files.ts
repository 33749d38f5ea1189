import { type FilesResult, ObjectGatherer } from "./files-gatherer.ts";
import { parseJson } from "./files-json.ts";
import { listFiles } from "./files-list.ts";
import { readText } from "./files-read.ts";
import { type InputDocument, parseYaml } from "./files-yaml.ts";

/**
 * Reads the objects in files and directories of JSON and YAML, `-` for standard input. What comes out does not
 * depend on the order of the paths: of two objects with one name, the last by file name and document is taken.
 *
 * Throws UNREADABLE_INPUT for the first input of which nothing can be used. A single object that cannot be used
 * is left out and named in `problems`.
 */
export async function readFiles(paths: readonly string[], stdin: AsyncIterable<Uint8Array>): Promise<FilesResult> {
  const { files, empty } = await listFiles(paths);
  const gatherer = new ObjectGatherer();
  for (const file of empty) gatherer.addEmpty(file, "this directory holds no .yaml, .yml or .json file");
  for (const file of files) {
    const text = await readText(file, stdin);
    const documents = parseDocuments(text, file);
    if (documents.length === 0) gatherer.addEmpty(file, "this file holds no document");
    for (const document of documents) gatherer.addDocument(file, document);
  }
  return gatherer.result();
}

/** A text that begins as JSON is read as JSON, which is 100 times faster; it may be YAML's flow style, though. */
function parseDocuments(text: string, file: string): InputDocument[] {
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
