import { describe, expect, test } from "vitest";
import { ASKING_FLAGS } from "../../../../src/cli/command.ts";
import { FLAGS } from "../../../../src/cli/flags.ts";
import { COMMANDS, commandOf } from "../../../../src/cli/program/commands.ts";
import { commandHelp, programHelp } from "../../../../src/cli/program/help.ts";

const helps = new Map<string, Promise<string>>();

/** Returns the help of a command, which takes a tenth of a second to format. */
async function helpOf(name: string, showAll = false): Promise<string> {
  const command = commandOf(name);
  if (command === undefined) throw new Error(`no command ${name}`);
  const key = `${name} ${showAll}`;
  const help = helps.get(key) ?? commandHelp(command, showAll, 80);
  helps.set(key, help);
  return await help;
}

describe("help", () => {
  test("of the program lists every command in its order", async () => {
    const listed = [...(await programHelp(80)).matchAll(/^ {2}([a-z][\w-]*)(?: \[\w+\])? {2,}\S/gm)];
    expect(listed.map(([, name]) => name)).toEqual(COMMANDS.map(({ name }) => name));
  });

  test.each(COMMANDS.map(({ name }) => name))("of %s fits 80 columns, and names its flags", async (name) => {
    const text = await helpOf(name, true);
    const wide = text.split("\n").filter((line) => line.length > 80 && !line.includes("nft-proxy "));
    expect(wide).toEqual([]);
    for (const flag of commandOf(name)?.flags ?? []) expect(text).toContain(`--${flag}`);
  });

  test("of a command shows the flags of the configuration that concern it, and all of them with --help-all", async () => {
    expect(await helpOf("explain")).toContain("--cluster-cidr");
    expect(await helpOf("cleanup")).not.toContain("--cluster-cidr");
    expect(await helpOf("cleanup", true)).toContain("--cluster-cidr");
    const fields = FLAGS.flatMap(({ name, target: { kind } }) => (kind === "field" ? [name] : []));
    for (const { name, common = ASKING_FLAGS } of COMMANDS) {
      expect(fields).toEqual(expect.arrayContaining([...common]));
      const all = await helpOf(name, true);
      for (const field of fields) expect(all).toContain(field.length === 1 ? `-${field} ` : `--${field} `);
    }
  });

  test("of a command gives each flag's meaning there, its short form and its default", async () => {
    expect(await helpOf("refusals")).toMatch(
      /^ {2}-n, --namespace +Only Services of this namespace +\[string\]$/m,
    );
    expect(await helpOf("fleet")).toMatch(
      /^ {2}-n, --namespace +The namespace of the pods; kube-system by default +\[string\]$/m,
    );
    expect(await helpOf("fleet")).toMatch(
      /^ {2}-o, --output +Output format: text, json or yaml +\[string\]$/m,
    );
    expect(await helpOf("dump")).toMatch(/^ {2}-o, --output +Output format: json or nft +\[string\]$/m);
    expect(await helpOf("completion")).toContain("\n  nft-proxy completion fish | source ");
    expect(await helpOf("run", true)).toMatch(/--conntrack-min +Minimum number of/);
    expect(await helpOf("run", true)).toContain("[number] [default: 131072]");
  });
});
