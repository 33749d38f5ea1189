import { rebuildTransaction } from "../../nft/transaction.ts";
import { validateTransaction } from "../../nft/validate.ts";
import type { Argv } from "../command.ts";
import { loadDesired } from "../desired.ts";
import { type CommandResult, EXIT } from "../output.ts";
import { hasErrors, problemText } from "../problems.ts";

/** `dump`: prints the transaction that makes both tables whole, ready for `nft -j -f -`. */
export async function run(argv: Argv): Promise<CommandResult> {
  const { state, problems, notices } = await loadDesired(argv);
  const said = [...notices, ...problems.map(problemText)];
  if (hasErrors(problems)) return { exitCode: EXIT.refused, notices: said };
  const transaction = rebuildTransaction(state.ruleset);
  validateTransaction(transaction);
  return { exitCode: EXIT.ok, output: `${JSON.stringify(transaction)}\n`, notices: said };
}
