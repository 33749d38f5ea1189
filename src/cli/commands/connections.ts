import { AppError } from "../../base/errors.ts";
import { quoted } from "../../base/schema-error.ts";
import { ConnectionAttribution } from "../../inspect/connections/attribution.ts";
import { ConnectionCounter } from "../../inspect/connections/connection-counter.ts";
import { isNamed } from "../../inspect/explain/query.ts";
import { loadDesired } from "../../inspect/load/desired.ts";
import { allLocalAddresses } from "../../kernel/addresses.ts";
import { conntrackTimeouts, translatedConnections } from "../../kernel/connections.ts";
import { hostFiles } from "../../kernel/host.ts";
import { canonicalAddress } from "../../model/ip.ts";
import { type Argv, isSet, textArgument } from "../command.ts";
import { loadRequest, optionsBesideDaemon } from "../options.ts";
import { type CommandResult, EXIT } from "../output.ts";
import { connectionsText } from "../print/connections-text.ts";
import { diagnosticText } from "../print/diagnostic-text.ts";
import { outputFormat } from "../print/output-format.ts";
import type { Progress } from "../print/progress.ts";
import { serviceArgument, unknownServiceNotices } from "../service-argument.ts";

/** `connections`: the tracked connections of this host, counted by Service and endpoint. Changes nothing. */
export async function run(argv: Argv, progress: Progress): Promise<CommandResult> {
  const format = outputFormat(argv, ["text", "json"]);
  const service = serviceArgument(argv);
  const client = clientOf(argv);
  progress.step("reading the objects");
  const command = await optionsBesideDaemon(argv);
  const { state, cache, diagnostics, notices } = await loadDesired(loadRequest(argv, command));
  const nodeAddresses = await allLocalAddresses(hostFiles);
  const attribution = new ConnectionAttribution(state, cache, new Set(nodeAddresses));
  const counter = new ConnectionCounter(attribution, await conntrackTimeouts(hostFiles), {
    draining: isSet(argv, "draining"),
    isWanted: (port) => service === undefined || isNamed(port, service),
  });
  progress.step("reading the connections");
  for await (const connection of translatedConnections("conntrack", client)) counter.add(connection);
  const report = counter.report();
  return {
    exitCode: EXIT.ok,
    output: format === "json" ? `${JSON.stringify(report, null, 2)}\n` : connectionsText(report),
    notices: [
      ...command.notices,
      ...unknownServiceNotices(service, cache.serviceNames()),
      ...notices,
      ...diagnostics.map(diagnosticText),
    ],
  };
}

/** @throws AppError BAD_ARGUMENT for anything but an address */
function clientOf(argv: Argv): string | undefined {
  const text = textArgument(argv, "client");
  if (text === undefined) return undefined;
  const address = canonicalAddress(text);
  if (address !== undefined) return address;
  throw new AppError("BAD_ARGUMENT", `--client must be an IP address, not ${quoted(text)}`);
}
