import { numberUpTo, oneOf } from "../../base/argument.ts";
import type { Flag, FlagType } from "../../base/option.ts";
import type { CommandHost, CommandObjects, CommandOutput, FeatureCommand } from "../seam/command.ts";
import { hasFigures, lackAdvice, readLacking } from "./accounting.ts";
import { follow, type Wanted } from "./follow.ts";
import { END_STATES, observation } from "./observer.ts";
import { isAbout, namesIn, placesOf } from "./subject.ts";
import { Summary } from "./summary.ts";
import { connectionLine, refusalLines, summaryLines } from "./words.ts";

const VERDICTS = ["served", "refused"] as const;
const [DEFAULT_RATE, MOST_RATE] = [100, 100_000];

function flag(name: string, type: FlagType, description: string, more: Pick<Flag, "values"> = {}): Flag {
  return { name, type, description, target: { kind: "command" }, isOwn: true, ...more };
}

/** `nft-proxy observe`: who talks to whom. Changes nothing. */
export const command: FeatureCommand = {
  name: "observe",
  summary: "Show who talks to which Service: clients, endpoints, bytes, durations, refusals",
  formats: ["text", "wide", "json"],
  flags: [
    flag("follow", "boolean", "Print connections as they begin and end, until interrupted"),
    flag("verdict", "string", "Only connections that the rules serve, or only those that they refuse", {
      values: VERDICTS,
    }),
  ],
  meanings: { rate: `Maximum number of lines a second with --follow; ${DEFAULT_RATE} by default` },
  examples: [
    ["--follow", "every connection of this host to a Service, as it begins and ends"],
    ["shop/cart:http --follow -o wide", "those to one port of a Service, with all addresses"],
    ["10.244.1.9", "the open connections of a pod, and its refusals in the last hour"],
  ],
  run,
};

async function run(host: CommandHost): Promise<CommandOutput> {
  const wanted = wantedOf(host);
  const lacking = await readLacking(host.files);
  const notices = wanted.served ? lacking.map((name) => `note: ${lackAdvice(name)}`) : [];
  const objects = await host.objects();
  if (!host.isSet("follow")) return { lines: present(host, objects, wanted), notices };
  return {
    lines: await follow(host, objects, wanted, hasFigures(lacking)),
    notices: [...notices, `note: ${wanted.rate} lines a second at most; Ctrl-C ends it`],
  };
}

/** @throws AppError BAD_ARGUMENT */
function wantedOf(host: CommandHost): Wanted {
  const text = host.text("verdict");
  const verdict = text === undefined ? undefined : oneOf("--verdict", VERDICTS, text);
  const rate = numberUpTo(MOST_RATE, "--rate", host.text("rate") ?? String(DEFAULT_RATE));
  return { served: verdict !== "refused", refused: verdict !== "served", rate };
}

/** Yields the open connections, the refusals of the last hour, and the summary. */
async function* present(
  host: CommandHost,
  objects: CommandObjects,
  { served, refused }: Wanted,
): AsyncGenerator<string, void, undefined> {
  const { clock, flows, subject, format } = host;
  const { attribute, podOf } = namesIn(objects);
  const summary = new Summary();
  let others = 0;
  for await (const flow of flows.list(undefined, served ? placesOf(subject, objects) : [])) {
    if (END_STATES.has(flow.state)) continue;
    const attributed = attribute(flow);
    if (attributed === undefined) others += 1;
    if (attributed === undefined || !isAbout(subject, attributed.port, flow)) continue;
    const observed = observation("open", attributed, flow, clock.now());
    summary.add(observed);
    yield connectionLine(observed, format, podOf);
  }
  for await (const refusals of refused ? host.refusals(new Promise(() => {})) : []) {
    for (const refusal of refusals) {
      summary.addRefusal(refusal);
      yield* refusalLines(refusal, format);
    }
    break;
  }
  const extent = { tookMs: undefined, omitted: 0, others, withoutFigures: 0, dropped: 0 };
  yield* summaryLines(summary, extent, format, podOf);
}
