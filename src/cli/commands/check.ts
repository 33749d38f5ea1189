import { AppError } from "../../base/errors.ts";
import { Nft, NftRefusedError } from "../../kernel/nft.ts";
import type { Transaction } from "../../nft/json.ts";
import { rebuildTransaction } from "../../nft/transaction.ts";
import { validateTransaction } from "../../nft/validate.ts";
import type { Argv } from "../command.ts";
import { conflictNotices } from "../conflicts.ts";
import { loadDesired } from "../desired.ts";
import { type CommandResult, EXIT } from "../output.ts";
import { hasErrors, problemText } from "../problems.ts";

/** `check`: objects against their schemas, and the transaction they make against its schema and the kernel. */
export async function run(argv: Argv): Promise<CommandResult> {
  const { options, world, objects, state, problems, notices } = await loadDesired(argv);
  const transaction = rebuildTransaction(state.ruleset);
  validateTransaction(transaction);
  const kernel = await askKernel(options.nftPath, transaction);
  const conflicts = conflictNotices(state.conflicts());
  const faults = [...problems.map(problemText), ...conflicts, ...(kernel.kind === "refused" ? [kernel.text] : [])];
  const refused = hasErrors(problems) || kernel.kind === "refused";
  const counts = `${world.serviceCount} Services, ${objects.endpointSlices.length} EndpointSlices`;
  const verdict = `${refused ? "refused" : "ok"}: ${counts}; ${kernel.text}`;
  return {
    exitCode: refused ? EXIT.refused : EXIT.ok,
    output: `${[...faults, verdict].join("\n")}\n`,
    notices,
  };
}

interface KernelVerdict {
  readonly kind: "accepted" | "refused" | "not-asked";
  readonly text: string;
}

/** Asks in a network namespace of its own: without root, and without a look at the rules of this host. */
async function askKernel(path: string, transaction: Transaction): Promise<KernelVerdict> {
  const isRoot = process.getuid?.() === 0;
  const nft = new Nft({ path, through: ["unshare", ...(isRoot ? [] : ["--map-root-user"]), "--net"] });
  try {
    await nft.check(transaction);
    return { kind: "accepted", text: "the kernel accepts the transaction" };
  } catch (error) {
    if (error instanceof NftRefusedError && !/unshare/.test(error.stderr)) {
      return { kind: "refused", text: `error: the kernel refuses the transaction: ${error.stderr.trim()}` };
    }
    if (error instanceof AppError) return { kind: "not-asked", text: `the kernel was not asked: ${error.message}` };
    throw error;
  }
}
