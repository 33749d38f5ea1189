import { ageText } from "../../base/duration.ts";
import { FAMILY_NAMES } from "../../base/family.ts";
import { counted, socketText } from "../../base/text.ts";
import { connectionAttribution } from "../../conntrack/connection-attribution.ts";
import {
  ConnectionCounter,
  type ConnectionCounts,
  type EndpointConnections,
  type ServicePortConnections,
} from "../../inspect/connections/connection-counter.ts";
import { conntrackTimeouts } from "../../inspect/connections/idleness.ts";
import { isNamed } from "../../inspect/explain/query.ts";
import { portSpecText } from "../../inspect/explain/words.ts";
import { loadDesired } from "../../inspect/load/desired.ts";
import { hostAddresses } from "../../kernel/addresses.ts";
import { conntrackTable, EVERYWHERE } from "../../kernel/conntrack.ts";
import { hostFiles } from "../../kernel/host.ts";
import { systemClock } from "../../kernel/system-clock.ts";
import { familyOf } from "../../model/ip.ts";
import { addressArgument, outputFormat, refuseUnserved, serviceArgument } from "../argument-values.ts";
import { type Argv, isSet, type Reporter } from "../command.ts";
import { type CommandResult, jsonText } from "../command-result.ts";
import { loadedNotices } from "../notices.ts";
import { requestBesideDaemon } from "../options.ts";
import { printable, tableLines } from "../terminal.ts";

/** `connections`: counts the tracked connections of this host by Service and endpoint. Changes nothing. */
export async function run(argv: Argv, reporter: Reporter): Promise<CommandResult> {
  const format = outputFormat(argv, ["text", "json"]);
  const service = serviceArgument(argv);
  const client = addressArgument(argv, "client");
  reporter.step("reading the objects");
  const desired = await loadDesired(await requestBesideDaemon(argv, reporter));
  const { state, cache } = desired;
  reporter.notice(loadedNotices(desired));
  refuseUnserved(service, desired);
  const { local } = await hostAddresses(hostFiles);
  const attribution = connectionAttribution(state, cache, new Set(local));
  const counter = new ConnectionCounter(attribution, await conntrackTimeouts(hostFiles), {
    draining: isSet(argv, "draining"),
    isWanted: (port) => service === undefined || isNamed(port, service),
  });
  reporter.step("reading the connections");
  const places = client === undefined ? EVERYWHERE : [{ family: familyOf(client) }];
  for await (const flow of conntrackTable(systemClock).list(undefined, places)) {
    if (client === undefined || flow.client.address === client) counter.add(flow);
  }
  const report = counter.report();
  return { output: format === "json" ? jsonText(report) : connectionsText(report) };
}

/** The text output: a heading for each Service port, a line for each endpoint. Ends with a line feed. */
function connectionsText({ services, unmanaged }: ConnectionCounts): string {
  const blocks = services.map((port) => [headingText(port), ...endpointLines(port.endpoints)].join("\n"));
  const others =
    unmanaged === 0
      ? ""
      : `${counted(unmanaged, "translated connection")} to no frontend of a Service, not shown\n`;
  if (blocks.length === 0) return `no matching connections\n${others}`;
  return `${[...blocks, ...(others === "" ? [] : [others.trimEnd()])].join("\n\n")}\n`;
}

function headingText(of: ServicePortConnections): string {
  const { service, port, number, protocol, family, connections } = of;
  const spec = portSpecText({ name: port, port: number, protocol });
  return `${service} port ${spec}, ${FAMILY_NAMES[family]}: ${counted(connections, "connection")}`;
}

function endpointLines(endpoints: readonly EndpointConnections[]): string[] {
  const rows = endpoints.map((endpoint) => [
    endpointName(endpoint),
    String(endpoint.connections),
    endpoint.condition,
    Object.entries(endpoint.states)
      .map(([state, number]) => `${number} ${state}`)
      .join(", "),
    idleText(endpoint),
  ]);
  const lines = tableLines(rows, 1);
  return endpoints.flatMap((endpoint, index) => [`  ${lines[index]}`, ...clientLines(endpoint)]);
}

function endpointName({ address, port, pod }: EndpointConnections): string {
  if (address === "") return "(other endpoints)";
  const end = socketText(address, port);
  return pod === "" ? end : `${end} ${printable(pod)}`;
}

function idleText({ idleSeconds, unacknowledged }: EndpointConnections): string {
  if (idleSeconds === undefined) return "";
  const { shortest, longest } = idleSeconds;
  const span = shortest === longest ? ageText(shortest) : `${ageText(shortest)} to ${ageText(longest)}`;
  return `idle ${span}${unacknowledged === 0 ? "" : `, ${unacknowledged} waiting for an acknowledgement`}`;
}

function clientLines({ clients = [], connectionsOfOtherClients: others = 0 }: EndpointConnections): string[] {
  if (clients.length === 0) return [];
  const names = clients.map(({ address, connections }) => `${address} (${connections})`);
  return [`    clients: ${[...names, ...(others === 0 ? [] : [`others (${others})`])].join(", ")}`];
}
