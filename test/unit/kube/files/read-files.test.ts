import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { stringify } from "yaml";
import type { AppError } from "../../../../src/base/errors.ts";
import { errorText } from "../../../../src/cli/command-result.ts";
import { readFiles } from "../../../../src/kube/files/read-files.ts";

const TOWN = fileURLToPath(new URL("../../../fixtures/town/objects", import.meta.url));
let directory: string;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "files-test-"));
});

afterEach(() => {
  rmSync(directory, { recursive: true });
});

function write(name: string, content: string | Uint8Array): string {
  const file = join(directory, name);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, content);
  return file;
}

async function* stdin(...chunks: string[]): AsyncIterable<Uint8Array> {
  for (const chunk of chunks) yield Buffer.from(chunk);
}

function read(...paths: string[]) {
  return readFiles(paths, stdin());
}

async function refusal(...paths: string[]): Promise<AppError> {
  try {
    await read(...paths);
  } catch (error) {
    return error as AppError;
  }
  throw new Error("was read");
}

function service(name: string, spec: object = {}): Record<string, unknown> {
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name, namespace: "town" },
    spec: { clusterIP: "10.96.0.1", ports: [{ port: 80 }], ...spec },
  };
}

async function names(...paths: string[]): Promise<string[]> {
  const { objects, diagnostics } = await read(...paths);
  expect(diagnostics).toEqual([]);
  return objects.services.map(({ value }) => value.name);
}

describe("readFiles", () => {
  test("reads a directory of API lists", async () => {
    const { objects, diagnostics, ignored, otherKinds } = await read(TOWN);
    expect(diagnostics).toEqual([]);
    expect(
      [objects.services, objects.endpointSlices, objects.nodes, objects.serviceCIDRs].map(
        (list) => list.length,
      ),
    ).toEqual([36, 47, 3, 1]);
    expect(ignored.filter(({ object }) => object.startsWith("Service "))).toMatchObject([
      { object: "Service edge/not-ours", reason: expect.stringContaining("another proxy") },
      { object: "Service shop/external-name", reason: "is of type ExternalName" },
      { object: "Service shop/frontend-headless", reason: "is headless" },
    ]);
    expect(otherKinds).toBe(0);
  });

  test("reads the same objects from YAML as from JSON", async () => {
    const { objects } = await read(TOWN);
    const lists = ["services", "endpointslices", "nodes", "servicecidrs"].map(async (name) => {
      const { default: list } = await import(`../../../fixtures/town/objects/${name}.json`, {
        with: { type: "json" },
      });
      return stringify(list);
    });
    const asYaml = await read(write("town.yaml", (await Promise.all(lists)).join("---\n")));
    expect(asYaml.diagnostics).toEqual([]);
    const values = (list: readonly { readonly value: unknown }[]) =>
      new Set(list.map(({ value }) => JSON.stringify(value)));
    expect(values(asYaml.objects.services)).toEqual(values(objects.services));
    expect(values(asYaml.objects.endpointSlices)).toEqual(values(objects.endpointSlices));
    expect(values(asYaml.objects.nodes)).toEqual(values(objects.nodes));
    expect(values(asYaml.objects.serviceCIDRs)).toEqual(values(objects.serviceCIDRs));
  });

  test.each<[what: string, file: string, text: string, expected: string[]]>([
    ["an object of JSON", "a.json", JSON.stringify(service("a")), ["town/a"]],
    [
      "several objects of JSON with a byte order mark",
      "a.json",
      `\uFEFF ${JSON.stringify(service("a"))}\n${JSON.stringify(service("b"), null, 1)}\n`,
      ["town/a", "town/b"],
    ],
    [
      "documents of YAML with comments and an end marker",
      "a.yaml",
      `---\n# nothing\n---\n${stringify(service("a"))}---\n${stringify(service("b"))}...\n`,
      ["town/a", "town/b"],
    ],
    ["JSON in a file named .yaml", "a.yaml", JSON.stringify(service("a")), ["town/a"]],
    [
      "YAML in one line in a file named .yml",
      "a.yml",
      "{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {clusterIP: 1.1.1.1, ports: [{port: 1}]}}",
      ["default/a"],
    ],
    [
      "a List",
      "a.json",
      JSON.stringify({ apiVersion: "v1", kind: "List", items: [service("a"), service("b")] }),
      ["town/a", "town/b"],
    ],
    [
      "a typed list whose items have no kind",
      "a.json",
      JSON.stringify({
        apiVersion: "v1",
        kind: "ServiceList",
        items: [{ ...service("a"), kind: undefined, apiVersion: undefined }],
      }),
      ["town/a"],
    ],
    [
      "a typed list of null",
      "a.json",
      JSON.stringify({ apiVersion: "v1", kind: "ServiceList", items: null }),
      [],
    ],
    ["YAML in a file named .txt", "a.txt", stringify(service("a")), ["town/a"]],
    [
      "YAML with merge keys and anchors",
      "a.yaml",
      "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: &spec\n  <<: [{clusterIP: 1.1.1.1, ports: []}]\n  ports: &p [{port: 1}]\n---\n",
      ["default/a"],
    ],
    ["YAML with an alias", "a.yaml", `${stringify(service("a"))}x: &x 1\ny: *x\n`, ["town/a"]],
  ])("reads %s", async (_what, name, text, expected) => {
    expect(await names(write(name, text))).toEqual(expected);
  });

  test("reads a long list item by item, with the same result", async () => {
    const many = Array.from({ length: 3000 }, (_, i) => service(`s${i}`, { padding: "x".repeat(500) }));
    const list = (items: readonly unknown[]) => JSON.stringify({ apiVersion: "v1", kind: "List", items });
    expect(await names(write("a.json", list(many)))).toHaveLength(3000);
    const pods = many.map((one) => ({ ...one, kind: "Pod" }));
    expect(await readFiles([write("b.json", list(pods))], stdin())).toMatchObject({ otherKinds: 3000 });
    const otherKinds = JSON.stringify({ apiVersion: "v1", kind: "PodList", items: pods });
    expect(await readFiles([write("c.json", otherKinds)], stdin())).toMatchObject({ otherKinds: 1 });
  });

  test.each(["List", "PodList"])("refuses a long %s that is not JSON, and names the file", async (kind) => {
    const many = Array.from({ length: 3000 }, (_, i) => service(`s${i}`, { padding: "x".repeat(500) }));
    const text = JSON.stringify({ apiVersion: "v1", kind, items: many }).replace('"s2000"', '"s2000');
    await expect(readFiles([write("a.json", text)], stdin())).rejects.toMatchObject({
      code: "UNREADABLE_INPUT",
      evidence: expect.objectContaining({ file: expect.stringContaining("a.json") }),
    });
  });

  test("reads standard input in pieces", async () => {
    const text = JSON.stringify(service("ä".replace("ä", "a"), {}));
    const { objects } = await readFiles(["-"], stdin(text.slice(0, 20), text.slice(20)));
    expect(objects.services).toMatchObject([
      { value: { name: "town/a" }, origin: { file: "-", document: 1, path: "" } },
    ]);
  });

  test("reads only the manifests of a directory, at any depth and through links, but nothing hidden", async () => {
    write("..data_1/a.yaml", stringify(service("a")));
    symlinkSync("..data_1", join(directory, "..data"));
    symlinkSync("..data/a.yaml", join(directory, "a.yaml"));
    symlinkSync(".", join(directory, "loop"));
    symlinkSync("nowhere", join(directory, "dangling"));
    write("deep/er/b.json", JSON.stringify(service("b")));
    write("deep/c.yml", stringify(service("c")));
    write(".hidden/d.yaml", "}");
    write(".e.yaml", "}");
    write("README.md", "}");
    expect(await names(directory)).toEqual(["town/a", "town/c", "town/b"]);
  });

  test("reads a file once even if it is named twice", async () => {
    const file = write("a.yaml", stringify(service("a")));
    expect(await names(directory, file, `${directory}/./a.yaml`)).toEqual(["town/a"]);
  });

  test.each([
    [true, ":1"],
    [false, ", document 1, items[0]"],
  ])("names the place of an object that another one replaces, thorough: %s", async (thorough, place) => {
    const items = [service("a"), service("a")];
    const file = write("a.json", JSON.stringify({ apiVersion: "v1", kind: "ServiceList", items }));
    const { diagnostics } = await readFiles([file], stdin(), { thorough });
    expect(diagnostics).toMatchObject([
      { path: "items[1]", reason: `duplicates the one in ${file}${place}; the last wins` },
    ]);
  });

  test("counts a kustomization without a kind, which kustomize allows, among other kinds", async () => {
    const text = stringify({ resources: ["service.yaml"] });
    const found = await Promise.all([
      read(write("kustomization.yaml", text)),
      read(write("other.yaml", text)),
    ]);
    expect(found.map(({ otherKinds, diagnostics }) => [otherKinds, diagnostics.length])).toEqual([
      [1, 0],
      [0, 1],
    ]);
  });

  test("counts objects of other kinds, and names those that a user may expect to be read", async () => {
    const texts = [
      stringify({ apiVersion: "apps/v1", kind: "Deployment", metadata: { name: "a" } }),
      stringify({ apiVersion: "serving.knative.dev/v1", kind: "Service", metadata: { name: "a" } }),
      stringify({ apiVersion: "v1", kind: "PodList", items: [{}] }),
      stringify({ apiVersion: "v1", kind: "Endpoints", metadata: { name: "a", namespace: "town" } }),
      stringify({ apiVersion: "kubeproxy.config.k8s.io/v1alpha1", kind: "KubeProxyConfiguration" }),
    ];
    const { otherKinds, ignored, diagnostics } = await read(write("a.yaml", texts.join("---\n")));
    expect([otherKinds, diagnostics]).toEqual([3, []]);
    expect(ignored).toMatchObject([
      { object: "Endpoints town/a", reason: expect.stringContaining("legacy") },
      { reason: expect.stringContaining("config --validate") },
    ]);
  });
});

describe("a diagnostic of readFiles", () => {
  test.each<[what: string, file: string, text: string, expected: object]>([
    [
      "a wrong address in the second document of YAML",
      "a.yaml",
      `---\n---\n${stringify(service("a", { externalIPs: ["192.0.2.1", "fe80::1%eth0"] }))}`,
      { document: 2, line: 14, path: "spec.externalIPs[1]", severity: "error", object: "Service town/a" },
    ],
    [
      "a wrong type in the second document of JSON",
      "a.json",
      `${JSON.stringify(service("b"), null, 1)}\n${JSON.stringify(service("a", { type: "Magic" }), null, 1)}`,
      { document: 2, line: 31, path: "spec.type", severity: "error", object: "Service town/a" },
    ],
    [
      "a wrong name in the second item of a list",
      "a.json",
      JSON.stringify(
        { apiVersion: "v1", kind: "ServiceList", items: [service("a"), { metadata: { name: 5 }, spec: {} }] },
        null,
        1,
      ),
      {
        line: 23,
        path: "items[1].metadata.name",
        reason: "must be a string, not 5",
        object: "Service default/(no name)",
      },
    ],
    [
      "an array",
      "a.yaml",
      "- 1\n",
      { line: 1, path: "", reason: "must be an object with apiVersion and kind, not an array" },
    ],
    [
      "null",
      "a.json",
      "null",
      { line: 1, path: "", reason: "must be an object with apiVersion and kind, not null" },
    ],
    ["an object without a kind", "a.yaml", "apiVersion: v1\n", { path: "kind", reason: "is missing" }],
    [
      "an object without an apiVersion",
      "a.yaml",
      "kind: Service\n",
      { path: "apiVersion", reason: "is missing" },
    ],
    [
      "a kind that is no text",
      "a.yaml",
      "apiVersion: v1\nkind: 5\n",
      { line: 2, path: "kind", reason: "must be text, not 5" },
    ],
    [
      "an unknown apiVersion",
      "a.yaml",
      "apiVersion: v2\nkind: Service\n",
      { line: 1, path: "apiVersion", reason: 'must be v1, not "v2"' },
    ],
    [
      "a List whose items are no array",
      "a.yaml",
      "apiVersion: v1\nkind: List\nitems: 5\n",
      { line: 3, path: "items", reason: "must be an array, not 5" },
    ],
    [
      "lists within lists",
      "a.json",
      JSON.stringify(
        [1, 2, 3, 4, 5].reduce<object>((inner) => ({ apiVersion: "v1", kind: "List", items: [inner] }), {}),
      ),
      { path: "items[0].items[0].items[0].items[0]", reason: "is a list within too many lists" },
    ],
  ])("names file, document, line and path of %s", async (_what, name, text, expected) => {
    const file = write(name, text);
    const { diagnostics } = await read(file);
    expect(diagnostics).toHaveLength(1);
    expect(diagnostics[0]).toMatchObject({ file, ...expected });
  });

  test("about one object does not affect the others", async () => {
    const file = write(
      "a.yaml",
      [service("a"), service("b", { ports: [] }), service("c")].map((s) => stringify(s)).join("---\n"),
    );
    const { objects, diagnostics } = await read(file);
    expect(objects.services.map(({ value }) => value.name)).toEqual(["town/a", "town/c"]);
    expect(diagnostics).toMatchObject([{ document: 2, path: "spec.ports", object: "Service town/b" }]);
  });

  test("names both places of two objects with one name, of which the last by file and document counts, in any order of paths", async () => {
    const a = write("a.yaml", stringify(service("x", { clusterIP: "10.0.0.1" })));
    const b = write(
      "b.yaml",
      `${stringify(service("x", { clusterIP: "10.0.0.2" }))}---\n${stringify(service("x", { clusterIP: "10.0.0.3" }))}`,
    );
    for (const paths of [
      [a, b],
      [b, a],
    ]) {
      const { objects, diagnostics } = await read(...paths);
      expect(objects.services).toMatchObject([
        { value: { clusterIPs: { ip: "10.0.0.3" } }, origin: { file: b, document: 2 } },
      ]);
      expect(diagnostics).toMatchObject([
        { severity: "warning", file: b, document: 1, reason: expect.stringContaining(`${a}, document 1`) },
        { severity: "warning", file: b, document: 2, reason: expect.stringContaining(`${b}, document 1`) },
      ]);
    }
  });

  test("an ignored object replaces an earlier one, too", async () => {
    const both = [service("x"), service("x", { clusterIP: "None" })];
    const { objects, ignored } = await read(write("a.yaml", both.map((s) => stringify(s)).join("---\n")));
    expect([objects.services, ignored]).toMatchObject([
      [],
      [{ object: "Service town/x", reason: "is headless" }],
    ]);
  });

  test.each(["", "# a comment\n---\n---\n"])("warns of YAML without a document: %j", async (text) => {
    const file = write("a.yaml", text);
    expect((await read(file)).diagnostics).toMatchObject([
      { severity: "warning", file, reason: "this file contains no document" },
    ]);
  });

  test("warns of a directory without manifests", async () => {
    expect((await read(directory)).diagnostics).toMatchObject([{ severity: "warning", file: directory }]);
  });
});

describe("readFiles and a key that an object of JSON has twice", () => {
  const text = '{"apiVersion": "v1",\n "kind": "Service",\n "kind": "Node"}';

  test.each(["a.json", "a.yaml"])("reports it in %s when it is thorough, as in YAML", async (name) => {
    const { diagnostics } = await readFiles([write(name, text)], stdin(), { thorough: true });
    expect(diagnostics).toEqual([expect.objectContaining({ line: 3, reason: 'duplicate key "kind"' })]);
  });

  test("uses the last one otherwise, as the API server's own lists have none", async () => {
    const { objects, diagnostics } = await read(
      write("a.json", text.replace("}", ', "metadata": {"name": "n"}}')),
    );
    expect(objects.nodes.map(({ value }) => value.name)).toEqual(["n"]);
    expect(diagnostics).toEqual([]);
  });
});

describe("readFiles refuses with file, line and reason", () => {
  test.each<
    [what: string, file: string, content: string | Uint8Array, reason: string, line: string | undefined]
  >([
    ["empty JSON", "a.json", "", "the JSON ends too early", "1"],
    ["JSON of white space", "a.json", " \n", "the JSON ends too early", "2"],
    ["JSON without a value", "a.json", '{"a": }', 'invalid JSON: unexpected "}"', "1"],
    ["JSON without a comma or an end", "a.json", '{"a":\n "b\n"}', 'invalid JSON: unexpected "\\""', "2"],
    ["JSON without a closing brace", "a.json", '{"a": 1\n', "the JSON ends too early", "2"],
    ["JSON with a leading zero", "a.json", '{"a": 01}', 'invalid JSON: unexpected "1"', "1"],
    ["JSON with a comma too many", "a.json", '{"a": 1,}', 'invalid JSON: unexpected "}"', "1"],
    ["JSON with the wrong bracket", "a.json", '{"a": [1}', 'invalid JSON: unexpected "}"', "1"],
    ["JSON with a bracket after its end", "a.json", "{}\n\n]", 'invalid JSON: unexpected "]"', "3"],
    ["a million brackets of JSON", "a.json", "[".repeat(1_000_000), "nests deeper than 64 levels", "1"],
    ["JSON cut short in a file named .yaml", "a.yaml", '{"a": [1, 2', "the JSON ends too early", "1"],
    ["YAML with an open bracket", "a.yaml", "a: 1\nb: [", "Flow sequence", "2"],
    ["YAML indented by tabs", "a.yaml", "a:\n\t- x", "Tabs are not allowed", "2"],
    [
      "YAML with a zero byte, as after a crash",
      "a.yaml",
      "a: 1\nkind: Service\0\n",
      "a control character",
      "2",
    ],
    ["YAML with a key twice", "a.yaml", "a: 1\nb: 2\na: 3\n", 'duplicate key "a"', "3"],
    ["an alias without an anchor", "a.yaml", "a: *b", "alias", "1"],
    [
      "an anchor that contains itself",
      "a.yaml",
      "a: &a [*a]",
      "alias *a precedes the end of its anchor",
      "1",
    ],
    ["a tag for a function", "a.yaml", "a: 1\nb: !!js/function x", "tag", "2"],
    ["a tag for binary data", "a.yaml", "a: !!binary aGVsbG8=", "tag", "1"],
    ["a merge key of a number", "a.yaml", "a: 1\n<<: 5", "must be a map", "2"],
    ["a key that is a map", "a.yaml", "a: 1\n{a: b}: c", "a key must be", "2"],
    ["keys of keys", "a.yaml", "? ".repeat(60), "a key must be", "1"],
    [
      "keys of keys that nest too deeply",
      "a.yaml",
      "? ".repeat(100_000),
      "nests deeper than 64 levels",
      undefined,
    ],
    [
      "100,000 brackets in a file named .yaml",
      "a.yaml",
      "[".repeat(100_000),
      "nests deeper than 64 levels",
      "1",
    ],
    [
      "brackets of YAML that nest too deeply",
      "a.yaml",
      `a: ${"[".repeat(100_000)}`,
      "nests deeper than 64 levels",
      undefined,
    ],
    [
      "sequences of YAML that nest too deeply",
      "a.yaml",
      "- ".repeat(100_000),
      "nests deeper than 64 levels",
      undefined,
    ],
    [
      "more YAML than 16 MiB",
      "a.yaml",
      `a: "${"x".repeat(16 * 1024 * 1024)}"`,
      "more than 16 MiB of YAML",
      undefined,
    ],
    [
      "a template's value",
      "a.yaml",
      "kind: Service\nmetadata:\n  name: {{ .Values.name }}\n",
      "looks like a template: render it first, as with helm template (line 3: a key must be plain text, not a map)",
      "3",
    ],
    [
      "a template that begins with a condition",
      "a.yaml",
      "{{- if .Values.enabled }}\nkind: Service\n{{- end }}\n",
      "looks like a template: render it first",
      "1",
    ],
    ["braces in quotes, which are no template", "a.yaml", 'a: "{{"\nb: [', "Flow sequence", "2"],
    ["YAML that is not UTF-8", "a.yaml", Buffer.from("a: b\nc: \xe9", "latin1"), "is not UTF-8 text", "2"],
    [
      "JSON that is not UTF-8",
      "a.json",
      Buffer.from("{}", "utf16le").fill(0xff, 0, 1),
      "is not UTF-8 text",
      "1",
    ],
  ])("%s", async (_what, name, content, reason, line) => {
    const file = write(name, content);
    const error = await refusal(file);
    expect(error).toMatchObject({ name: "AppError", code: "UNREADABLE_INPUT", evidence: { file } });
    expect(error.message).toContain(file);
    expect(error.evidence.reason).toContain(reason);
    expect(error.evidence.line).toBe(line);
  });

  test("bombs of aliases, plain and in lists of lists", async () => {
    const levels = "bcdefghij".split("").map((name, index) => {
      const inner = "abcdefghij".charAt(index);
      return `${name}: &${name} [${new Array(10).fill(`*${inner}`).join(", ")}]`;
    });
    const plain = write("plain.yaml", `a: &a [x, x, x, x, x, x, x, x, x, x]\n${levels.join("\n")}\n`);
    const pods = new Array(300).fill("{apiVersion: v1, kind: Pod}").join(", ");
    const lists = `apiVersion: v1\nkind: List\nitems:\n- &a {apiVersion: v1, kind: List, items: [${pods}]}\n${"- *a\n".repeat(3000)}`;
    for (const file of [plain, write("lists.yaml", lists)])
      expect((await refusal(file)).evidence.reason).toBe("aliases expand to more than 100000 nodes");
  });

  test("large maps take linear time", async () => {
    const keys = Array.from({ length: 50_000 }, (_, index) => `k${index}: &a${index} x`);
    const { diagnostics } = await read(write("a.yaml", `${keys.join("\n")}\n`));
    expect(diagnostics).toMatchObject([{ path: "kind", reason: "is missing" }]);
  });

  test("a missing file, a dangling link and a stream without an end", async () => {
    expect((await refusal(join(directory, "none"))).message).toBe(
      `cannot read ${directory}/none: no such file or directory`,
    );
    symlinkSync("nowhere", join(directory, "a.yaml"));
    expect((await refusal(directory)).evidence.file).toBe(join(directory, "a.yaml"));
    rmSync(join(directory, "a.yaml"));
    symlinkSync("nowhere", join(directory, "a\n::error::\u001b[31m.yaml"));
    expect(errorText(await refusal(directory))).toBe(
      `nft-proxy: cannot read ${directory}/a\\u000a::error::\\u001b[31m.yaml: no such file or directory\n`,
    );
    const chunk = Buffer.alloc(64 * 1024 * 1024, 32);
    async function* endless(): AsyncIterable<Uint8Array> {
      for (;;) yield chunk;
    }
    const tooLong = await readFiles(["-"], endless()).catch((error) => error);
    expect(errorText(tooLong)).toBe("nft-proxy: cannot read standard input: is larger than 256 MiB\n");
  });

  test("a file whose contents cannot be read, even if it is thorough", async () => {
    await expect(readFiles(["/proc/self/mem"], stdin(), { thorough: true })).rejects.toMatchObject({
      code: "UNREADABLE_INPUT",
      message: "cannot read /proc/self/mem: i/o error",
    });
  });
});
