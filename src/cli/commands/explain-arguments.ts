import { numberUpTo, oneOf } from "../../base/argument.ts";
import { type AppError, badArgument } from "../../base/errors.ts";
import { alternatives, quoted } from "../../base/text.ts";
import type { GivenClient, Source } from "../../inspect/explain/packet.ts";
import type { ExplainQuery } from "../../inspect/explain/query.ts";
import { PROTOCOLS, type Protocol } from "../../model/ids.ts";
import { familyOf } from "../../model/ip.ts";
import { ECHO_PROTOCOLS } from "../../nft/ast/expression.ts";
import {
  addressArgument,
  addressOf,
  namespaceArgument,
  parseService,
  serviceArgument,
} from "../argument-values.ts";
import { type Argv, isSet, textArgument } from "../command.ts";

const QUERY_FORMS = "ADDRESS:PORT[/PROTOCOL], ADDRESS or SERVICE[:PORT]";
const EXAMPLES =
  "for example: nft-proxy explain 10.96.0.10:53/udp, or nft-proxy explain kube-system/kube-dns:dns";

/**
 * Reads the query of `explain` from its arguments.
 * @throws AppError BAD_ARGUMENT
 */
export function explainQueryOf(argv: Argv): ExplainQuery {
  const queries = [...positionalQuery(argv), ...flagQueries(argv)];
  const [query, another] = queries;
  if (another !== undefined) throw unclear("more than one query: give one connection, one Service, or --all");
  if (query === undefined)
    throw unclear("nothing to explain: give ADDRESS:PORT[/PROTOCOL], ADDRESS, SERVICE[:PORT], or --all");
  refuseUnused(argv, query);
  return query;
}

/** @throws AppError BAD_ARGUMENT for an option that the query would ignore */
function refuseUnused(argv: Argv, { kind }: ExplainQuery): void {
  const given = (name: string) => textArgument(argv, name) !== undefined;
  if (given("port") && !given("to")) {
    throw badArgument(
      `--port needs --to; write ${kind === "service" ? "SERVICE:PORT" : "ADDRESS:PORT"} instead`,
    );
  }
  if (given("proto") && kind !== "connection")
    throw badArgument("--proto needs an address: a Service's ports have their own");
}

/** The query of the argument without a flag: `10.96.0.10:53/udp`, `[fd00::1]:53`, `shop/cart:http`. */
function positionalQuery(argv: Argv): ExplainQuery[] {
  const text = textArgument(argv, "what");
  if (text === undefined) return [];
  const [, bracketed, plain, port, protocol] = DESTINATION.exec(text) ?? [];
  const host = bracketed ?? plain;
  if (host !== undefined) return [connectionQuery(argv, readHost(host), port, protocol)];
  const address = addressOf(text);
  if (address !== undefined) return [pingQuery(argv, address)];
  if (text.startsWith("[") || isWithoutBrackets(text))
    throw unclear(`an IPv6 address with a port needs the form [ADDRESS]:PORT, not ${quoted(text)}`);
  const named = parseService(text, namespaceArgument(argv));
  if (named !== undefined) return [{ kind: "service", named, from: fromOf(argv) }];
  throw unclear(`the argument must be ${QUERY_FORMS}, not ${quoted(text)}`);
}

const DESTINATION = /^(?:\[([^\]]*)\]|([\d.]+)):(\d+)(?:\/([a-z]+))?$/i;

/** Whether a text is an IPv6 address and a port without brackets. */
function isWithoutBrackets(text: string): boolean {
  const [, host] = /^(.*:.*):\d+(?:\/[a-z]+)?$/i.exec(text) ?? [];
  return host !== undefined && addressOf(host) !== undefined;
}

/** The address of a destination. Throws AppError BAD_ARGUMENT. */
function readHost(text: string): string {
  const address = addressOf(text);
  if (address !== undefined) return address;
  const zone = text.includes("%") ? ": Services have no addresses with a zone" : "";
  throw badArgument(`${quoted(text)} is not an IP address${zone}`);
}

function flagQueries(argv: Argv): ExplainQuery[] {
  const named = serviceArgument(argv);
  const problemsOnly = isSet(argv, "problems");
  const namespace = namespaceArgument(argv);
  const to = addressArgument(argv, "to");
  return [
    ...(to === undefined ? [] : [connectionQuery(argv, to, textArgument(argv, "port"), undefined)]),
    ...(named === undefined ? [] : [{ kind: "service" as const, named, from: fromOf(argv) }]),
    ...(isSet(argv, "all") || problemsOnly
      ? [{ kind: "all" as const, problemsOnly, from: fromOf(argv), namespace }]
      : []),
  ];
}

function connectionQuery(
  argv: Argv,
  to: string,
  port: string | undefined,
  protocol: string | undefined,
): ExplainQuery {
  const from = sourceFor(argv, to);
  const proto = textArgument(argv, "proto");
  const read = readProtocol(protocol ?? proto ?? "tcp");
  if (proto !== undefined && readProtocol(proto) !== read)
    throw badArgument("--proto contradicts the protocol of the address");
  return { kind: "connection", question: { ...from, to, port: readPort(port), protocol: read } };
}

/** The query for an address without a port: whether it answers pings. */
function pingQuery(argv: Argv, to: string): ExplainQuery {
  if (textArgument(argv, "proto") !== undefined) throw unclear("a connection needs a port: ADDRESS:PORT");
  const from = sourceFor(argv, to);
  return { kind: "connection", question: { ...from, to, port: 0, protocol: ECHO_PROTOCOLS[familyOf(to)] } };
}

/** Throws AppError BAD_ARGUMENT for a client of another family than the destination. */
function sourceFor(argv: Argv, to: string): GivenClient {
  const from = fromOf(argv);
  if (from.fromAddress !== undefined && familyOf(from.fromAddress) !== familyOf(to)) {
    throw badArgument("--from-ip and the destination must be of one family, IPv4 or IPv6");
  }
  return from;
}

const SOURCES: readonly Source[] = ["pod", "node", "outside"];

function fromOf(argv: Argv): GivenClient {
  const text = textArgument(argv, "source");
  const source = text === undefined ? undefined : oneOf("--source", SOURCES, text);
  return { fromAddress: addressArgument(argv, "from-ip"), source };
}

/**
 * Reads a port.
 * @throws AppError BAD_ARGUMENT
 */
export function readPort(text: string | undefined): number {
  if (text === undefined) throw badArgument("--to needs --port");
  return numberUpTo(65_535, "the port", text);
}

/**
 * Reads a protocol.
 * @param others further values that the caller accepts, for the error
 * @throws AppError BAD_ARGUMENT
 */
export function readProtocol(text: string, others: readonly string[] = []): Protocol {
  const protocol = PROTOCOLS.find((one) => one === text.toLowerCase());
  if (protocol !== undefined) return protocol;
  throw badArgument(`the protocol must be ${alternatives([...PROTOCOLS, ...others])}, not ${quoted(text)}`);
}

/** The error for a query that cannot be interpreted. */
function unclear(message: string): AppError {
  return badArgument(message, { hint: EXAMPLES });
}
