import { expect, test } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { asYaml } from "../../../src/cli/command-result.ts";

const VALUES = [
  { a: ["no", "10:53", "1.2.3.4:80", "0777"], b: { c: 'line\nbreak "quoted"' } },
  { d: [], e: {} },
];

async function* pieces(): AsyncIterable<string> {
  yield `${JSON.stringify(VALUES[0])}\n${JSON.stringify(VALUES[1])}\n`;
  yield "";
  yield `${JSON.stringify(VALUES[0])}\n`;
}

test.each(["1.1", "1.2"] as const)(
  "JSON becomes YAML that a reader of version %s reads as the same",
  async (version) => {
    expect(parse(String(await asYaml(JSON.stringify(VALUES))), { version })).toEqual(VALUES);
  },
);

test("each line of JSON that comes in pieces becomes a YAML document", async () => {
  let text = "";
  for await (const piece of (await asYaml(pieces())) as AsyncIterable<string>) text += piece;
  const documents = parseAllDocuments(text).map((document) => document.toJS());
  expect(documents).toEqual([VALUES[0], VALUES[1], VALUES[0]]);
});

test("a command without output prints no YAML either", async () => {
  expect(await asYaml("")).toBe("");
});
