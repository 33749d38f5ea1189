import { afterEach, describe, expect, test, vi } from "vitest";
import { run } from "../../../../src/cli/commands/completion.ts";

afterEach(() => {
  vi.unstubAllEnvs();
});

async function script(shell: readonly string[], own: string | undefined): Promise<unknown> {
  vi.stubEnv("SHELL", own);
  return (await run({ shell: [...shell] })).output;
}

describe("completion", () => {
  test.each([
    ["zsh for a user of zsh", [], "/usr/bin/zsh", "#compdef nft-proxy"],
    ["bash for a user of bash", [], "/bin/bash", "complete -o bashdefault"],
    ["fish for a user of fish", [], "/usr/bin/fish", "complete -c nft-proxy"],
    ["bash for a user of another shell", [], "/usr/bin/ksh", "complete -o bashdefault"],
    ["bash where no shell is known", [], undefined, "complete -o bashdefault"],
    ["the shell that is asked for, whatever the user's is", ["zsh"], "/bin/bash", "#compdef nft-proxy"],
  ])("prints the script of %s", async (_which, shell, own, contains) => {
    expect(await script(shell, own)).toContain(contains);
  });

  test("refuses another shell", async () => {
    await expect(script(["ksh"], "/bin/bash")).rejects.toMatchObject({
      code: "BAD_ARGUMENT",
      message: expect.stringMatching(/^the shell must be bash, zsh or fish, not .?ksh.?$/),
    });
  });
});
