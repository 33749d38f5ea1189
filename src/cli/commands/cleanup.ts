import { AppError } from "../../base/errors.ts";
import type { ProxyOptions } from "../../config/options.ts";
import { daemonAddress } from "../../inspect/daemon-socket/daemon-client.ts";
import { systemErrorCode } from "../../kernel/host.ts";
import { NftProgram } from "../../kernel/nft.ts";
import { tableNames } from "../../kernel/nft-listings.ts";
import { reservedPortFiles, reservePorts } from "../../kernel/reserved-ports.ts";
import { TABLE_NAME } from "../../nft/ast/ruleset.ts";
import { removalTransaction } from "../../nft/transaction.ts";
import { type Argv, isSet } from "../command.ts";
import { commandOptions } from "../options.ts";
import { type CommandResult, EXIT } from "../output.ts";

/** The name of the tables of kube-proxy's nftables mode. */
const KUBE_PROXY_TABLE = "kube-proxy";

/**
 * `cleanup`: removes nft-proxy's tables; with `--kube-proxy` those that kube-proxy's nftables mode left instead, so
 * that a node that migrates has rules all the time. `--dry-run` prints them. Refuses while a daemon answers, which
 * would make the tables again, unless `--force`.
 */
export async function run(argv: Argv): Promise<CommandResult> {
  const { options, notices } = commandOptions(argv);
  const isDryRun = isSet(argv, "dry-run");
  const name = isSet(argv, "kube-proxy") ? KUBE_PROXY_TABLE : TABLE_NAME;
  if (name === TABLE_NAME && !isDryRun && !isSet(argv, "force")) await refuseBesideDaemon(options);
  const nft = new NftProgram({ path: options.nftPath });
  const present = await tableNames(nft);
  const tables = (["ip", "ip6"] as const).flatMap((family) =>
    present.has(`${family} ${name}`) ? [{ family, name }] : [],
  );
  if (tables.length > 0 && !isDryRun) await nft.apply(removalTransaction(tables));
  const removed = tables.map(({ family }) => `${family} ${name}`);
  if (name === TABLE_NAME && (await releasePorts(isDryRun))) removed.push("reserved NodePorts");
  if (removed.length === 0) return { exitCode: EXIT.ok, output: "nothing to remove\n", notices };
  const output = `${isDryRun ? "would remove" : "removed"}: ${removed.join(", ")}\n`;
  return { exitCode: EXIT.ok, output, notices };
}

/** Takes back what `--reserve-nodeports` has reserved. Returns whether there is any. @throws AppError HOST */
async function releasePorts(isDryRun: boolean): Promise<boolean> {
  try {
    if (isDryRun) return (await reservedPortFiles.readOurs()) !== "";
    return await reservePorts(new Set(), reservedPortFiles);
  } catch (cause) {
    throw new AppError("HOST", `cannot take reserved NodePorts back: ${systemErrorCode(cause)}`, { cause });
  }
}

/** @throws AppError HOST */
async function refuseBesideDaemon(options: ProxyOptions): Promise<void> {
  const address = await daemonAddress(options);
  if (address === undefined) return;
  throw new AppError(
    "HOST",
    `a daemon runs on this host (${address}) and would make the tables again; nothing was removed`,
    {
      hint: "stop it first; --force removes the tables anyway, --dry-run only names them",
    },
  );
}
