import { expect, onTestFinished, test } from "vitest";
import { run } from "../../../../src/cli/commands/support-bundle.ts";
import { quietReporter } from "../../../support/command.ts";

test("support-bundle does not write its archive to a terminal", async () => {
  const { isTTY } = process.stdout;
  onTestFinished(() => {
    process.stdout.isTTY = isTTY;
  });
  process.stdout.isTTY = true;
  await expect(run({ file: ["-"] }, quietReporter())).rejects.toMatchObject({
    code: "BAD_ARGUMENT",
    hint: expect.stringContaining("> bundle.tar.gz"),
  });
});
