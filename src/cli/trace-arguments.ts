import { parseDuration } from "../base/duration.ts";
import { AppError } from "../base/errors.ts";
import { quoted } from "../base/schema-error.ts";
import type { TraceQuery } from "../inspect/trace/trace-rules.ts";
import { type Argv, textArgument } from "./command.ts";
import { readAddress, readPort, readProtocol } from "./explain-arguments.ts";
import { serviceArgument } from "./service-argument.ts";

const MOST_RATE = 1000;
const MOST_DURATION_MS = 24 * 3_600_000;

/** The packets, the time and the rate of a trace. */
export interface TraceArguments {
  readonly query: TraceQuery;
  readonly durationMs: number;
  readonly rate: number;
}

/** Reads the arguments of `trace`. Throws AppError BAD_ARGUMENT. */
export function traceArguments(argv: Argv): TraceArguments {
  const service = serviceArgument(argv);
  const [to, client, from] = ["to", "client", "from-ip"].map((flag) => {
    const text = textArgument(argv, flag);
    return text === undefined ? undefined : readAddress(flag, text);
  });
  const hasPort = textArgument(argv, "port") !== undefined;
  if (service !== undefined && (to !== undefined || hasPort)) {
    throw new AppError("BAD_ARGUMENT", "--service has addresses and ports of its own: leave out --to and --port");
  }
  if (client !== undefined && from !== undefined) {
    throw new AppError("BAD_ARGUMENT", "--from-ip and --client are both the client's address: give one of them");
  }
  const query: TraceQuery = {
    ...(service === undefined ? {} : { service }),
    ...(to === undefined ? {} : { to }),
    ...(client === undefined ? {} : { client }),
    ...(from === undefined ? {} : { fromAddress: from }),
    ...(hasPort ? { port: readPort(textArgument(argv, "port")) } : {}),
    ...(hasPort || textArgument(argv, "proto") !== undefined
      ? { protocol: readProtocol(textArgument(argv, "proto") ?? "tcp") }
      : {}),
  };
  return { query, durationMs: readDuration(argv), rate: readRate(argv) };
}

function readDuration(argv: Argv): number {
  const text = textArgument(argv, "duration") ?? "30s";
  const duration = parseDuration(text);
  if (duration !== undefined && duration >= 1 && duration <= MOST_DURATION_MS) return duration;
  throw new AppError("BAD_ARGUMENT", `--duration must be a time up to 24h, such as 30s or 5m, not ${quoted(text)}`);
}

function readRate(argv: Argv): number {
  const text = textArgument(argv, "rate") ?? "5";
  const rate = /^[1-9]\d{0,3}$/.test(text) ? Number(text) : 0;
  if (rate >= 1 && rate <= MOST_RATE) return rate;
  throw new AppError("BAD_ARGUMENT", `--rate must be a number from 1 to ${MOST_RATE}, not ${quoted(text)}`);
}
