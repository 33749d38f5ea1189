import { AppError } from "../../base/errors.ts";
import { FAMILIES } from "../../base/family.ts";
import { withoutDaemon } from "../../daemon/namespace-lock.ts";
import { systemErrorCode } from "../../kernel/host.ts";
import { type Nft, nftProgram } from "../../kernel/nft.ts";
import { tableNames } from "../../kernel/nft-listings.ts";
import { reservedPortFiles, reservePorts } from "../../kernel/reserved-ports.ts";
import { TABLE_NAME } from "../../nft/ast/ruleset.ts";
import { removalTransaction } from "../../nft/transaction.ts";
import { type Argv, isSet, type Reporter } from "../command.ts";
import type { CommandResult } from "../command-result.ts";
import { commandOptions } from "../options.ts";

/** The name of the tables of kube-proxy's nftables mode. */
const KUBE_PROXY_TABLE = "kube-proxy";

/**
 * `cleanup`: removes nft-proxy's tables; with `--kube-proxy` those that kube-proxy's nftables mode left
 * instead, so that a node that migrates always has rules. `--dry-run` prints them. Without `--force` it
 * refuses while a daemon runs.
 */
export async function run(argv: Argv, reporter: Reporter): Promise<CommandResult> {
  const { nftPath } = commandOptions(argv, reporter);
  const isDryRun = isSet(argv, "dry-run");
  const name = isSet(argv, "kube-proxy") ? KUBE_PROXY_TABLE : TABLE_NAME;
  const isHarmless = name === KUBE_PROXY_TABLE || isDryRun;
  const removed = await withoutDaemon(isHarmless || isSet(argv, "force"), REFUSAL, () =>
    remove(nftProgram({ path: nftPath }), name, isDryRun),
  );
  if (removed.length === 0) return { output: "nothing to remove\n" };
  return { output: `${isDryRun ? "would remove" : "removed"}: ${removed.join(", ")}\n` };
}

const REFUSAL = {
  consequence: "recreate the tables: nothing was removed",
  hint: "stop it first; --force removes the tables anyway, --dry-run only names them",
};

/**
 * Removes the tables of this name, and with ours the reserved NodePorts. Returns the names of the removed
 * objects.
 */
async function remove(nft: Nft, name: string, isDryRun: boolean): Promise<string[]> {
  const present = await tableNames(nft);
  const tables = FAMILIES.flatMap((family) => (present.has(`${family} ${name}`) ? [{ family, name }] : []));
  if (tables.length > 0 && !isDryRun) await nft.apply(removalTransaction(tables));
  const removed = tables.map(({ family }) => `${family} ${name}`);
  const isReleased = name === TABLE_NAME && (await releasePorts(isDryRun));
  return isReleased ? [...removed, "reserved NodePorts"] : removed;
}

/**
 * Releases the ports that `--reserve-nodeports` reserved. Returns whether there are any.
 * @throws AppError HOST
 */
async function releasePorts(isDryRun: boolean): Promise<boolean> {
  try {
    if (isDryRun) return (await reservedPortFiles.readOurs()) !== "";
    return await reservePorts(new Set(), reservedPortFiles);
  } catch (cause) {
    throw new AppError("HOST", `cannot release the reserved NodePorts: ${systemErrorCode(cause)}`, { cause });
  }
}
