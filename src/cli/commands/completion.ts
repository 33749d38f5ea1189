import { basename } from "node:path";
import { badArgument } from "../../base/errors.ts";
import { alternatives, quoted } from "../../base/text.ts";
import { type Argv, COMPLETION_ARGUMENT, textArgument } from "../command.ts";
import type { CommandResult } from "../command-result.ts";

/**
 * `completion`: prints a shell script that asks this program for completions.
 * @throws AppError BAD_ARGUMENT for another shell
 */
export async function run(argv: Argv): Promise<CommandResult> {
  const given = textArgument(argv, "shell");
  const shell = given ?? basename(process.env.SHELL ?? "");
  const script = SCRIPTS.get(shell) ?? (given === undefined ? BASH : undefined);
  if (script !== undefined) return { output: script };
  throw badArgument(`the shell must be ${alternatives([...SCRIPTS.keys()])}, not ${quoted(shell)}`);
}

/** If there are no completions, the scripts complete files. */
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

/** The quotes keep an empty last word as an argument. */
const FISH = `function __nft_proxy
  set -l before (commandline -opc)
  set -e before[1]
  set -l last (commandline -ct)
  set -l found (nft-proxy ${COMPLETION_ARGUMENT} $before "$last" 2>/dev/null)
  if set -q found[1]
    printf '%s\\n' $found
  else
    __fish_complete_path "$last"
  end
end
complete -c nft-proxy -f -a '(__nft_proxy)'
`;

const SCRIPTS: ReadonlyMap<string, string> = new Map([
  ["bash", BASH],
  ["zsh", ZSH],
  ["fish", FISH],
]);
