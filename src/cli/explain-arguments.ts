import { AppError } from "../base/errors.ts";
import { quoted } from "../base/schema-error.ts";
import type { Question, Source } from "../inspect/explain/packet.ts";
import type { ExplainQuery } from "../inspect/explain/query.ts";
import type { Protocol } from "../model/ids.ts";
import { canonicalAddress, familyOf } from "../model/ip.ts";
import { type Argv, textArgument } from "./command.ts";
import { serviceArgument } from "./service-argument.ts";

const EXAMPLES =
  "nft-proxy explain --to 10.96.0.10 --port 53 --proto udp, or nft-proxy explain --service kube-system/kube-dns:dns";

/**
 * Reads the query of `explain` from its arguments.
 * @throws AppError BAD_ARGUMENT
 */
export function explainQueryOf(argv: Argv): ExplainQuery {
  const [to, named] = [textArgument(argv, "to"), serviceArgument(argv)];
  if (to !== undefined && named !== undefined) throw wrong("--to and --service are two questions: ask one");
  if (named !== undefined) return { kind: "service", named, from: fromOf(argv) };
  if (to === undefined) throw wrong("say which connection to explain: --to ADDRESS --port PORT, or --service");
  const address = readAddress("to", to);
  const from = fromOf(argv);
  if (from.fromAddress !== undefined && familyOf(from.fromAddress) !== familyOf(address)) {
    throw wrong("--from-ip and --to are addresses of two families");
  }
  return { kind: "connection", question: { ...from, to: address, port: readPort(argv), protocol: readProtocol(argv) } };
}

function fromOf(argv: Argv): Pick<Question, "fromAddress" | "source"> {
  const address = textArgument(argv, "from-ip");
  const source = readSource(argv);
  return {
    ...(address === undefined ? {} : { fromAddress: readAddress("from-ip", address) }),
    ...(source === undefined ? {} : { source }),
  };
}

/** A flag's text as an address. Throws AppError BAD_ARGUMENT. */
export function readAddress(flag: string, text: string): string {
  const address = canonicalAddress(text.replace(/^\[(.*)\]$/, "$1"));
  if (address !== undefined) return address;
  throw new AppError("BAD_ARGUMENT", `--${flag} must be an IP address, not ${quoted(text)}`, {
    hint: "a DNS name of a Service is its name and namespace: --service namespace/name",
  });
}

/** `--port`. Throws AppError BAD_ARGUMENT. */
export function readPort(argv: Argv): number {
  const text = textArgument(argv, "port");
  if (text === undefined) throw wrong("--to needs --port, too");
  const port = /^[1-9]\d{0,4}$/.test(text) ? Number(text) : 0;
  if (port >= 1 && port <= 65535) return port;
  throw wrong(`--port must be a number from 1 to 65535, not ${quoted(text)}`);
}

const PROTOCOLS: readonly Protocol[] = ["tcp", "udp", "sctp"];

/** `--proto`, TCP when it was not given. Throws AppError BAD_ARGUMENT. */
export function readProtocol(argv: Argv): Protocol {
  const text = textArgument(argv, "proto") ?? "tcp";
  const protocol = PROTOCOLS.find((one) => one === text.toLowerCase());
  if (protocol !== undefined) return protocol;
  throw wrong(`--proto must be one of ${PROTOCOLS.join(", ")}, not ${quoted(text)}`);
}

const SOURCES: readonly Source[] = ["pod", "node", "outside"];

function readSource(argv: Argv): Source | undefined {
  const text = textArgument(argv, "source");
  const source = SOURCES.find((one) => one === text);
  if (text === undefined || source !== undefined) return source;
  throw wrong(`--source must be one of ${SOURCES.join(", ")}, not ${quoted(text)}`);
}

function wrong(message: string): AppError {
  return new AppError("BAD_ARGUMENT", message, { hint: EXAMPLES });
}
