import { isMap, isScalar, isSeq, Lexer, Parser, parseAllDocuments, stringify } from "yaml";
import { AppError, messageOf } from "../base/errors.ts";
import type { Document } from "../base/option.ts";
import { firstLine, isRecord, listText } from "../base/text.ts";
import { shallowTokens } from "../base/yaml-nesting.ts";
import { configurationOf, withDefaults } from "./configuration.ts";
import { ignoredFieldWarnings } from "./ignored-settings.ts";
import { refuseInvalid } from "./invalid-value.ts";
import type { ProxyOptions } from "./options.ts";
import { modeWarnings } from "./other-modes.ts";
import { OWN_SECTION, unknownFieldWarnings, unknownOwnFields } from "./schema.ts";
import { dependencyViolations, schemaViolations } from "./validate.ts";

/** ConfigMap keys under which kubeadm and others store the configuration, in order of preference. */
const CONFIG_MAP_KEYS = ["config.conf", "config"] as const;

/** Maximum nesting; a configuration has three levels. */
const DEEPEST = 32;

/** Maximum length of the text; a ConfigMap is always shorter. */
const MOST_CHARACTERS = 2 ** 21;

/**
 * Parses a KubeProxyConfiguration v1alpha1, or a ConfigMap that contains one, from YAML or JSON.
 * @param name the name of the text in messages, such as its path
 * @returns the fields that the text has, each valid by itself, without defaults; and warnings
 * @throws AppError BAD_CONFIG with every invalid value and its path, or with the line of a syntax error
 */
export function readConfiguration(text: string, name: string) {
  const { value: document, repeated } = documentIn(text, name);
  const isOwn = (path: string) => path.startsWith(OWN_SECTION);
  const unknown = isRecord(document) ? unknownFieldWarnings(document) : [];
  refuseViolations(document, repeated.filter(isOwn), unknown, name);
  const given = document as Document;
  return {
    given,
    warnings: [
      // kube-proxy 1.36 also uses the last value of a key, and warns.
      ...repeated
        .filter((path) => !isOwn(path))
        .map((path) => `${path} is given more than once: the last value is used`),
      ...modeWarnings(given, "fields"),
      ...ignoredFieldWarnings(given),
      ...unknown,
    ],
  };
}

/**
 * Throws if a document is invalid. The error lists all invalid values, and the fields that are ignored.
 * @param repeated the fields of our section that are given more than once
 * @param unknown warnings about the fields that are ignored
 */
function refuseViolations(
  document: unknown,
  repeated: readonly string[],
  unknown: readonly string[],
  name: string,
): void {
  const bySchema = schemaViolations(document);
  const isOtherKind = bySchema.some(({ subject }) => subject === "kind" || subject === "apiVersion");
  // The other fields of another kind mean nothing.
  const fields = isRecord(document) && !isOtherKind ? document : undefined;
  const violations = [
    ...bySchema,
    ...(isRecord(document) ? unknownOwnFields(document) : []),
    ...repeated.map((subject) => ({ subject, reason: "must not be given more than once" })),
    ...(fields ? dependencyViolations(withDefaults(fields), bySchema) : []),
  ];
  refuseInvalid("BAD_CONFIG", name, violations, fields && listText(unknown));
}

/**
 * Formats the configuration of options as YAML, with fields in the order of kube-proxy's `--write-config-to`.
 */
export function printConfiguration(options: ProxyOptions): string {
  return stringify(configurationOf(options), { sortMapEntries: true, lineWidth: 0 });
}

function documentIn(text: string, name: string) {
  const document = parseOne(text, name);
  const { value } = document;
  if (!isRecord(value) || value.kind !== "ConfigMap") return document;
  const data = isRecord(value.data) ? value.data : {};
  const key = configurationKey(data, name);
  return parseOne(String(data[key]), `${name}, data[${JSON.stringify(key)}]`);
}

/**
 * Returns the key of a ConfigMap's data that has the configuration: a usual one, or the only one with such a
 * text.
 */
function configurationKey(data: Readonly<Record<string, unknown>>, name: string): string {
  const usual = CONFIG_MAP_KEYS.find((candidate) => typeof data[candidate] === "string");
  if (usual !== undefined) return usual;
  const keys = Object.keys(data).filter((key) =>
    /\bkind"?:\s*"?KubeProxyConfiguration\b/.test(String(data[key])),
  );
  const [only] = keys;
  if (only !== undefined && keys.length === 1) return only;
  const found = keys.length === 0 ? "no configuration" : `several configurations (${keys.join(", ")})`;
  throw new AppError("BAD_CONFIG", `${name}: the ConfigMap contains ${found}`, {
    hint: `the configuration belongs under one of data's keys, such as ${CONFIG_MAP_KEYS[0]}, as a text`,
  });
}

/** Parses a text. `repeated` are the paths of keys that are given more than once; the last value counts. */
function parseOne(text: string, name: string) {
  if (text.length > MOST_CHARACTERS) throw unreadable(name, "it is longer than 2 MiB");
  const tooDeep = (reason: string) => unreadable(name, `it ${reason}`);
  // Only the check matters here; the parser cannot work without making the tokens.
  for (const _ of shallowTokens(new Parser(), new Lexer().lex(text), DEEPEST, tooDeep));
  // A `---` before only comments, or at the end, does not start a document.
  const documents = parseAllDocuments(text, { logLevel: "error", uniqueKeys: false }).filter(
    ({ contents, errors }) => isSomething(contents) || errors.length > 0,
  );
  const [document] = documents;
  if (document === undefined) throw unreadable(name, "it is empty");
  if (documents.length > 1)
    throw unreadable(name, `it contains ${documents.length} documents instead of one`);
  const [error] = document.errors;
  if (error !== undefined) throw unreadable(name, firstLine(error.message));
  try {
    const value: unknown = document.toJS();
    return { value, repeated: repeatedKeys(document.contents) };
  } catch (cause) {
    throw unreadable(name, firstLine(messageOf(cause)));
  }
}

function repeatedKeys(node: unknown, prefix = ""): string[] {
  if (isSeq(node)) return node.items.flatMap((item) => repeatedKeys(item, prefix));
  if (!isMap(node)) return [];
  const seen = new Set<string>();
  return node.items.flatMap(({ key, value }) => {
    const path = `${prefix}${String(isScalar(key) ? key.value : key)}`;
    const isRepeated = seen.has(path);
    seen.add(path);
    return [...(isRepeated ? [path] : []), ...repeatedKeys(value, `${path}.`)];
  });
}

function isSomething(contents: unknown): boolean {
  return contents !== null && !(isScalar(contents) && contents.value === null);
}

function unreadable(name: string, reason: string): AppError {
  return new AppError("BAD_CONFIG", `${name} cannot be read: ${reason}`, {
    hint: "it must be one KubeProxyConfiguration v1alpha1, or a ConfigMap with one, in YAML or JSON",
  });
}
