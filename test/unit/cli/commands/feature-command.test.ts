import { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { describe, expect, test } from "vitest";
import { runnerOf } from "../../../../src/cli/commands/feature-command.ts";
import type { CommandHost, CommandOutput } from "../../../../src/features/seam/command.ts";
import { quietReporter, townObjects } from "../../../support/command.ts";

const OBJECTS = { from: [townObjects("town")], "hostname-override": ["node-1"] };

/** Runs a command that does this, with these arguments. */
async function ran(
  argv: Readonly<Record<string, readonly string[]>>,
  run: (host: CommandHost) => Promise<CommandOutput> | CommandOutput = () => says(),
) {
  const runner = runnerOf({
    name: "greet",
    summary: "Greet",
    formats: ["text", "json"],
    flags: [],
    examples: [],
    run: async (host) => await run(host),
  });
  const reporter = quietReporter();
  const { output = "" } = await runner({ ...OBJECTS, ...argv }, reporter);
  const printed = await text(Readable.from(output as AsyncIterable<string>));
  return { output: printed, notices: reporter.notices };
}

function says(...lines: readonly string[]): CommandOutput {
  return { lines: Readable.from(lines), notices: ["note: hello"] };
}

/** Returns the service ports of the family ip that the arguments select. */
async function selected(argv: Readonly<Record<string, readonly string[]>>): Promise<readonly string[]> {
  const names: string[] = [];
  await ran(argv, async ({ subject, objects }) => {
    const { state } = await objects();
    for (const { port } of state.families.ip?.allServicePortRules() ?? [])
      if (subject.isMeant?.(port) ?? true) names.push(port.name);
    return says();
  });
  return names.sort();
}

describe("a command of a feature", () => {
  test("prints its lines without control characters, after its notices", async () => {
    const bell = await ran({}, () => says("a\u0007b", "c"));
    expect([bell.output, bell.notices]).toEqual(["a?b\nc\n", ["note: hello"]]);
    const json = await ran({ output: ["json"] }, () => says('{"pod":"a\u009bb"}'));
    expect(json.output).toBe('{"pod":"a\\u009bb"}\n');
  });

  test("gets the Service, the port or the namespace of its arguments, and everything without", async () => {
    expect(await selected({ what: ["shop/cart"] })).toEqual(["shop/cart:http/tcp"]);
    expect(await selected({ what: ["cart:http"], namespace: ["shop"] })).toEqual(["shop/cart:http/tcp"]);
    const ofShop = await selected({ namespace: ["shop"] });
    expect(ofShop.length).toBeGreaterThan(2);
    expect(ofShop.filter((name) => !name.startsWith("shop/"))).toEqual([]);
    expect((await selected({})).length).toBeGreaterThan(ofShop.length);
  });

  test("gets an address in canonical form", async () => {
    let subject: CommandHost["subject"] = {};
    await ran({ what: ["[FD00:0::1]"] }, (host) => {
      subject = host.subject;
      return says();
    });
    expect(subject).toEqual({ address: "fd00::1" });
  });

  test("fails for a Service without rules or another argument, and warns of an unknown namespace", async () => {
    await expect(ran({ what: ["shop/car"] })).rejects.toMatchObject({
      hint: expect.stringContaining("did you mean shop/cart?"),
    });
    await expect(ran({ what: ["a b"] })).rejects.toThrow("the argument must be SERVICE[:PORT] or ADDRESS");
    expect((await ran({ namespace: ["shops"] })).notices).toContain(
      "warning: there is no Service in namespace shops: did you mean shop?",
    );
  });
});
