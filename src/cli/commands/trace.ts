import { numberUpTo } from "../../base/argument.ts";
import { parseDuration } from "../../base/duration.ts";
import { badArgument } from "../../base/errors.ts";
import { counted, quoted } from "../../base/text.ts";
import { workingFeatures } from "../../features/selection.ts";
import { loadDesiredIfAvailable } from "../../inspect/load/desired.ts";
import { liveTables } from "../../inspect/load/kernel-tables.ts";
import {
  endName,
  type NamedRule,
  type NamedStage,
  type NamedStory,
  resetEndpoint,
  storyNamer,
} from "../../inspect/trace/named-story.ts";
import type { PacketStory } from "../../inspect/trace/packet-story.ts";
import { tracePackets } from "../../inspect/trace/trace-packets.ts";
import { selectedPackets, type TraceQuery } from "../../inspect/trace/trace-rules.ts";
import { hostAddresses } from "../../kernel/addresses.ts";
import { conntrackTable } from "../../kernel/conntrack.ts";
import { hostFiles } from "../../kernel/host.ts";
import { nftProgram } from "../../kernel/nft.ts";
import { routingRefusal } from "../../kernel/routes.ts";
import { systemClock } from "../../kernel/system-clock.ts";
import { TABLE_NAME } from "../../nft/ast/ruleset.ts";
import { addressArgument, outputFormat, refuseUnserved, serviceArgument } from "../argument-values.ts";
import { type Argv, type Reporter, textArgument } from "../command.ts";
import { type CommandResult, textsOf } from "../command-result.ts";
import { loadedNotices } from "../notices.ts";
import { requestBesideDaemon } from "../options.ts";
import { untilInterrupted } from "../signals.ts";
import { printable } from "../terminal.ts";
import { readPort, readProtocol } from "./explain-arguments.ts";

/** `trace`: the paths of real packets through the chains of all tables. Removes its own table at the end. */
export async function run(argv: Argv, reporter: Reporter): Promise<CommandResult> {
  const format = outputFormat(argv, ["text", "json"]);
  const { query, durationMs, rate } = traceArguments(argv);
  const request = await requestBesideDaemon(argv, reporter);
  const { options } = request;
  reporter.step("reading the objects");
  // Only the objects contain the addresses of a Service.
  const without = query.service === undefined ? "Services and pods are not named" : undefined;
  const desired = await loadDesiredIfAvailable(request, without);
  const ruleset = desired.objectsKnown ? desired.state.ruleset : (await liveTables(request)).ruleset;
  reporter.notice(loadedNotices(desired));
  refuseUnserved(query.service, desired);
  const { selections, omitted } = selectedPackets(query, desired.state);
  const nodeAddresses = new Set((await hostAddresses(hostFiles)).local);
  const name = storyNamer(desired.state, desired.cache, nodeAddresses, ruleset);
  const table = conntrackTable(systemClock);
  const named = async (story: PacketStory) => {
    const { packet, last = packet, end } = story;
    const endpoint = await resetEndpoint(story, table);
    const isStopped = end.kind === "stopped" && end.after !== undefined;
    const routed = { ...last, input: packet.input };
    const refusal = isStopped ? await routingRefusal(hostFiles, routed, nodeAddresses) : undefined;
    return name(story, endpoint, refusal);
  };
  const nft = nftProgram({ path: options.nftPath });
  const stories = tracePackets({ nft, selections, durationMs, rate, stop: untilInterrupted() });
  const omission = `warning: ${counted(omitted, "frontend")} of the Service not traced: name one with --to and --port`;
  reporter.notice([
    ...(omitted === 0 ? [] : [omission]),
    ...workingFeatures(options).flatMap(({ words }) => words?.untraced ?? []),
    `note: tracing for ${durationMs / 1000} s, ${rate} packets a second at most; Ctrl-C ends it`,
  ]);
  const jsonLine = async (story: PacketStory) => `${JSON.stringify(await named(story))}\n`;
  return { output: format === "json" ? textsOf(stories, jsonLine) : texts(stories, named, durationMs) };
}

async function* texts(
  stories: AsyncIterable<PacketStory>,
  named: (story: PacketStory) => Promise<NamedStory>,
  durationMs: number,
): AsyncIterable<string> {
  const startedAt = performance.now();
  let count = 0;
  for await (const story of stories) {
    yield `${storyText(await named(story))}\n`;
    count += 1;
  }
  // Less than the duration when it was interrupted.
  const seconds = Math.round(Math.min(durationMs, performance.now() - startedAt) / 1000);
  if (count === 0) yield `no matching packets within ${seconds} s\n`;
}

const MOST_RATE = 1000;
const MOST_DURATION_MS = 24 * 3_600_000;

/** Reads the packets, the time and the rate of a trace. Throws AppError BAD_ARGUMENT. */
function traceArguments(argv: Argv) {
  const service = serviceArgument(argv);
  const to = addressArgument(argv, "to");
  const client = addressArgument(argv, "client");
  const fromAddress = addressArgument(argv, "from-ip");
  const hasPort = textArgument(argv, "port") !== undefined;
  if (service !== undefined && (to !== undefined || hasPort)) {
    throw badArgument("--service has addresses and ports of its own: omit --to and --port");
  }
  if (client !== undefined && fromAddress !== undefined) {
    throw badArgument("--from-ip and --client are both the client's address: use only one of them");
  }
  const port = hasPort ? readPort(textArgument(argv, "port")) : undefined;
  const proto = textArgument(argv, "proto") ?? (hasPort ? "tcp" : undefined);
  if (proto === "icmp" && (hasPort || service !== undefined))
    throw badArgument("--proto icmp is for pings, which have no ports: select them by --to or --from-ip");
  const protocol = proto === undefined || proto === "icmp" ? proto : readProtocol(proto, ["icmp"]);
  const query: TraceQuery = { service, to, client, fromAddress, port, protocol };
  const durationMs = readDuration(argv);
  const rate = numberUpTo(MOST_RATE, "--rate", textArgument(argv, "rate") ?? "5");
  return { query, durationMs, rate };
}

function readDuration(argv: Argv): number {
  const text = textArgument(argv, "duration") ?? "30s";
  const duration = parseDuration(text);
  if (duration !== undefined && duration >= 1 && duration <= MOST_DURATION_MS) return duration;
  throw badArgument(`--duration must be a time up to 24h, such as 30s or 5m, not ${quoted(text)}`);
}

/** A packet's story for people, with a line feed at its end. */
export function storyText(story: NamedStory): string {
  const { time, protocol, flags, source, destination, input, stages, message } = story;
  const kind = flags.length === 0 ? protocol : `${protocol} ${flags.join(",")}`;
  const way = input === "" ? "from this node" : `received on ${input}`;
  const head = `${time.slice(11, 23)} ${kind} ${endName(source)} to ${endName(destination)}, ${way}`;
  return `${[head, ...stagesLines(stages), `  ${message}`].map(printable).join("\n")}\n`;
}

/** Chains without an effect, in one line. */
function stagesLines(stages: readonly NamedStage[]): string[] {
  const lines: string[] = [];
  let silent: string[] = [];
  const tell = () => {
    if (silent.length > 0) lines.push(`  no effect in ${silent.join(", ")}`);
    silent = [];
  };
  for (const stage of stages) {
    const name = `${stage.family} ${stage.table} ${stage.chain}`;
    if (shownRules(stage).length === 0 && stage.policy !== "drop" && stage.destination === undefined) {
      silent.push(name);
    } else {
      tell();
      lines.push(`  ${name}`, ...stageLines(stage));
    }
  }
  tell();
  return lines;
}

/**
 * The rules without those that only lead from chain to chain: firewalld has a dozen of these for each packet.
 * For other software, jumps that lead to a shown rule are included.
 */
function shownRules({ table, rules }: NamedStage): readonly NamedRule[] {
  const told: NamedRule[] = [];
  const chains = new Set<string>();
  for (const rule of rules.toReversed()) {
    if (!doesNothing(rule, table === TABLE_NAME ? new Set() : chains)) {
      told.unshift(rule);
      chains.add(rule.chain);
    }
  }
  return told;
}

/** Whether a rule only leaves its chain, for a chain that is not among `chains`. */
function doesNothing({ verdict, means }: NamedRule, chains: ReadonlySet<string>): boolean {
  if (means !== undefined) return false;
  const [, target] = /^(?:jump|goto) (.*)$/.exec(verdict) ?? [];
  return target === undefined ? verdict === "return" : !chains.has(target);
}

function stageLines(stage: NamedStage): string[] {
  const { chain, policy, destination } = stage;
  return [
    ...(destination === undefined ? [] : [`    the destination is now ${endName(destination)}`]),
    ...shownRules(stage).map((rule) => ruleLine(rule, chain)),
    ...(policy === "drop" ? ["    policy drop"] : []),
  ];
}

function ruleLine({ chain, rule, verdict, means }: NamedRule, base: string): string {
  const where = chain === base ? "" : `${chain}: `;
  const isWritten = rule === verdict || rule.endsWith(` ${verdict}`);
  const result = verdict === "continue" || isWritten ? "" : ` -> ${verdict}`;
  return `    ${where}${rule}${result}${means === undefined ? "" : ` (${means})`}`;
}
