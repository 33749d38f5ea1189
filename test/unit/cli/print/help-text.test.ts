import { describe, expect, test } from "vitest";
import { COMMANDS, commandOf } from "../../../../src/cli/commands.ts";
import { FLAGS } from "../../../../src/cli/flags.ts";
import { commandHelp, programHelp } from "../../../../src/cli/print/help-text.ts";

function helpOf(name: string, showAll = false): string {
  const command = commandOf(name);
  if (command === undefined) throw new Error(`no command ${name}`);
  return commandHelp(command, showAll, 80);
}

describe("help", () => {
  test("of the program lists every command in its order", () => {
    const listed = [...programHelp(COMMANDS, 80).matchAll(/^ {2}([a-z][\w-]*)(?: \[\w+\])? {2,}\S/gm)];
    expect(listed.map(([, name]) => name)).toEqual(COMMANDS.map(({ name }) => name));
  });

  test.each(COMMANDS.map(({ name }) => name))("of %s fits 80 columns, and names its flags", (name) => {
    const text = helpOf(name, true);
    const wide = text.split("\n").filter((line) => line.length > 80 && !line.includes("nft-proxy "));
    expect(wide).toEqual([]);
    for (const flag of commandOf(name)?.flags ?? []) expect(text).toContain(`--${flag}`);
  });

  test("of a command shows the flags of the configuration that concern it, and all of them with --help-all", () => {
    expect(helpOf("explain")).toContain("--cluster-cidr");
    expect(helpOf("cleanup")).not.toContain("--cluster-cidr");
    expect(helpOf("cleanup", true)).toContain("--cluster-cidr");
    const fields = FLAGS.flatMap(({ name, target: { kind } }) => (kind === "field" ? [name] : []));
    for (const { name, common } of COMMANDS) {
      expect(fields).toEqual(expect.arrayContaining([...common]));
      for (const field of fields)
        expect(helpOf(name, true)).toContain(field.length === 1 ? `-${field} ` : `--${field} `);
    }
  });

  test("of a command gives each flag's meaning there, its short form and its default", () => {
    expect(helpOf("refusals")).toMatch(/^ {2}-n, --namespace text +Only Services of this namespace$/m);
    expect(helpOf("fleet")).toMatch(/^ {2}-n, --namespace text +The namespace of the pods; kube-system by default$/m);
    expect(helpOf("dump")).toMatch(/^ {2}-o, --output text +Output format: json or nft$/m);
    expect(helpOf("run", true)).toMatch(/--conntrack-min number +Minimum of tracked connections/);
    expect(helpOf("run", true)).toContain("(default: 131072)");
  });
});
