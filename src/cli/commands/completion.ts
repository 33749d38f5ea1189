import { basename } from "node:path";
import { AppError } from "../../base/errors.ts";
import { quoted } from "../../base/text.ts";
import { type Argv, COMPLETION_ARGUMENT, textArgument } from "../command.ts";
import { type CommandResult, EXIT } from "../output.ts";

/**
 * `completion`: a script that asks this program for the completions of a command line.
 * @throws AppError BAD_ARGUMENT for another shell
 */
export async function run(argv: Argv): Promise<CommandResult> {
  const given = textArgument(argv, "shell");
  const shell = given ?? (basename(process.env.SHELL ?? "") === "zsh" ? "zsh" : "bash");
  if (shell !== "bash" && shell !== "zsh") {
    throw new AppError("BAD_ARGUMENT", `the shell must be bash or zsh, not ${quoted(shell)}`);
  }
  return { exitCode: EXIT.ok, output: shell === "zsh" ? ZSH : BASH };
}

/** Where there is no completion, bash completes files. */
const BASH = `_nft_proxy() {
  mapfile -t COMPREPLY < <(nft-proxy ${COMPLETION_ARGUMENT} "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o bashdefault -o default -F _nft_proxy nft-proxy
`;

const ZSH = `#compdef nft-proxy
_nft_proxy() {
  local -a found
  found=("\${(@f)$(nft-proxy ${COMPLETION_ARGUMENT} "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n $found ]]; then compadd -a found; else _files; fi
}
compdef _nft_proxy nft-proxy
`;
