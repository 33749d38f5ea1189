import { counted } from "../../base/text.ts";
import { loadDesired } from "../../inspect/load/desired.ts";
import { type NamedStory, resetEndpoint, StoryNames } from "../../inspect/trace/named-story.ts";
import type { PacketStory } from "../../inspect/trace/packet-story.ts";
import { tracePackets } from "../../inspect/trace/trace-packets.ts";
import { selectedPackets } from "../../inspect/trace/trace-rules.ts";
import { allLocalAddresses } from "../../kernel/addresses.ts";
import { translatedConnections } from "../../kernel/connections.ts";
import { hostFiles } from "../../kernel/host.ts";
import { Nft } from "../../kernel/nft.ts";
import type { Argv } from "../command.ts";
import { loadRequest, optionsBesideDaemon } from "../options.ts";
import { type CommandResult, EXIT } from "../output.ts";
import { diagnosticText } from "../print/diagnostic-text.ts";
import { outputFormat } from "../print/output-format.ts";
import type { Progress } from "../print/progress.ts";
import { storyText } from "../print/story-text.ts";
import { untilInterrupted } from "../signals.ts";
import { traceArguments } from "../trace-arguments.ts";

/** `trace`: real packets' ways through the chains of all tables. Removes its own table at the end. */
export async function run(argv: Argv, progress: Progress): Promise<CommandResult> {
  const format = outputFormat(argv, ["text", "json"]);
  const { query, durationMs, rate } = traceArguments(argv);
  const command = await optionsBesideDaemon(argv);
  const { options, notices } = command;
  progress.step("reading the objects");
  const desired = await loadDesired(loadRequest(argv, command));
  const { selections, omitted } = selectedPackets(query, desired.state);
  const nodeAddresses = await allLocalAddresses(hostFiles);
  const names = new StoryNames(desired.state, desired.cache, new Set(nodeAddresses));
  const nft = new Nft({ path: options.nftPath });
  const stories = tracePackets({ nft, selections, durationMs, rate, stop: untilInterrupted() });
  return {
    exitCode: EXIT.ok,
    output: format === "json" ? jsonLines(stories, names) : texts(stories, names, durationMs),
    notices: [
      ...notices,
      ...desired.notices,
      ...desired.diagnostics.map(diagnosticText),
      ...omittedNotices(omitted),
      `note: tracing for ${durationMs / 1000} s, ${rate} packets a second at most; Ctrl-C ends it`,
    ],
  };
}

function omittedNotices(omitted: number): string[] {
  if (omitted === 0) return [];
  return [`warning: ${counted(omitted, "frontend")} of the Service not traced: name one with --to and --port`];
}

async function named(story: PacketStory, names: StoryNames): Promise<NamedStory> {
  return names.named(story, await resetEndpoint(story, (client) => translatedConnections("conntrack", client)));
}

async function* jsonLines(stories: AsyncIterable<PacketStory>, names: StoryNames): AsyncIterable<string> {
  for await (const story of stories) yield `${JSON.stringify(await named(story, names))}\n`;
}

async function* texts(
  stories: AsyncIterable<PacketStory>,
  names: StoryNames,
  durationMs: number,
): AsyncIterable<string> {
  const startedAt = performance.now();
  let count = 0;
  for await (const story of stories) {
    yield `${storyText(await named(story, names))}\n`;
    count += 1;
  }
  // Less than the duration when it was interrupted.
  const seconds = Math.round(Math.min(durationMs, performance.now() - startedAt) / 1000);
  if (count === 0) yield `no such packet came by within ${seconds} s\n`;
}
