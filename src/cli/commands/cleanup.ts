import { Nft } from "../../kernel/nft.ts";
import { TABLE_NAME } from "../../nft/ast/ruleset.ts";
import { removalTransaction } from "../../nft/transaction.ts";
import { type Argv, isSet } from "../command.ts";
import { commandOptions } from "../options.ts";
import { type CommandResult, EXIT } from "../output.ts";

/** The name of the tables of kube-proxy's nftables mode. */
const KUBE_PROXY_TABLE = "kube-proxy";

/**
 * `cleanup`: removes our tables; with `--kube-proxy` those that kube-proxy's nftables mode left, and leaves ours, so
 * that a node on its way from one to the other has rules all the while.
 */
export async function run(argv: Argv): Promise<CommandResult> {
  const { options, notices } = commandOptions(argv);
  const nft = new Nft({ path: options.nftPath });
  const name = isSet(argv, "kube-proxy") ? KUBE_PROXY_TABLE : TABLE_NAME;
  const present = await nft.tableNames();
  const tables = (["ip", "ip6"] as const).flatMap((family) =>
    present.has(`${family} ${name}`) ? [{ family, name }] : [],
  );
  if (tables.length > 0) await nft.apply(removalTransaction(tables));
  const removed = tables.map(({ family, name }) => `${family} ${name}`).join(", ");
  return { exitCode: EXIT.ok, output: tables.length > 0 ? `removed: ${removed}\n` : "nothing to remove\n", notices };
}
