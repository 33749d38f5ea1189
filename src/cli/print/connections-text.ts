import { ageText } from "../../base/duration.ts";
import { FAMILY_NAMES } from "../../base/family.ts";
import { counted, socketText } from "../../base/text.ts";
import type {
  ConnectionReport,
  EndpointConnections,
  ServicePortConnections,
} from "../../inspect/connections/report.ts";
import { portSpecText } from "../../inspect/explain/words.ts";
import { printable } from "./style.ts";

/** The connections for people: a heading for each Service port, a line for each endpoint. Ends with a line feed. */
export function connectionsText({ services, unmanaged }: ConnectionReport): string {
  const blocks = services.map((port) => [headingText(port), ...endpointLines(port.endpoints)].join("\n"));
  const others =
    unmanaged === 0 ? "" : `${counted(unmanaged, "translated connection")} to no frontend of a Service, not shown\n`;
  if (blocks.length === 0) return `no matching connections\n${others}`;
  return `${[...blocks, ...(others === "" ? [] : [others.trimEnd()])].join("\n\n")}\n`;
}

function headingText({ service, port, number, protocol, family, connections }: ServicePortConnections): string {
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
  const widths = [0, 1, 2, 3].map((column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return endpoints.flatMap((endpoint, index) => {
    const [name = "", number = "", ...rest] = rows[index] ?? [];
    const cells = [name.padEnd(widths[0] ?? 0), number.padStart(widths[1] ?? 0)];
    cells.push(...rest.map((cell, column) => cell.padEnd(widths[column + 2] ?? 0)));
    return [`  ${cells.join("  ").trimEnd()}`, ...clientLines(endpoint)];
  });
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
