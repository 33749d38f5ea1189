import { Nft } from "../../kernel/nft.ts";
import { TABLE_NAME } from "../../nft/ruleset.ts";
import { removalTransaction } from "../../nft/transaction.ts";
import { type Argv, isSet } from "../command.ts";
import { commandOptions } from "../options.ts";
import { type CommandResult, EXIT } from "../output.ts";

/** What kube-proxy's nftables mode calls its tables. */
const KUBE_PROXY_TABLE = "kube-proxy";

/** `cleanup`: removes our tables, and with `--kube-proxy` those that kube-proxy's nftables mode left. */
export async function run(argv: Argv): Promise<CommandResult> {
  const { options, notices } = commandOptions(argv);
  const nft = new Nft({ path: options.nftPath });
  const names = [TABLE_NAME, ...(isSet(argv, "kube-proxy") ? [KUBE_PROXY_TABLE] : [])];
  const present = await nft.tableNames();
  const tables = names.flatMap((name) =>
    (["ip", "ip6"] as const).flatMap((family) => (present.has(`${family} ${name}`) ? [{ family, name }] : [])),
  );
  if (tables.length > 0) await nft.apply(removalTransaction(tables));
  const removed = tables.map(({ family, name }) => `${family} ${name}`).join(", ");
  return { exitCode: EXIT.ok, output: tables.length > 0 ? `removed: ${removed}\n` : "nothing to remove\n", notices };
}
