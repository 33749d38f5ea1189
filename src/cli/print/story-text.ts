import { endName, type NamedRule, type NamedStage, type NamedStory } from "../../inspect/trace/named-story.ts";
import { TABLE_NAME } from "../../nft/ast/ruleset.ts";
import { printable } from "./style.ts";

/** A packet's story for people, with a line feed at its end. */
export function storyText(story: NamedStory): string {
  const { time, protocol, flags, source, destination, input, stages, message } = story;
  const kind = flags.length === 0 ? protocol : `${protocol} ${flags.join(",")}`;
  const way = input === "" ? "from this node" : `in by ${input}`;
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
    if (toldRules(stage).length === 0 && stage.policy !== "drop" && stage.destination === undefined) {
      silent.push(name);
    } else {
      tell();
      lines.push(`  ${name}`, ...stageLines(stage));
    }
  }
  tell();
  return lines;
}

/** The rules without our own that lead from chain to chain and nowhere else. */
function toldRules({ table, rules }: NamedStage): readonly NamedRule[] {
  if (table !== TABLE_NAME) return rules;
  return rules.filter(({ verdict, means }) => means !== undefined || !verdict.startsWith("jump "));
}

function stageLines(stage: NamedStage): string[] {
  const { chain, policy, destination } = stage;
  return [
    ...(destination === undefined ? [] : [`    the destination is now ${endName(destination)}`]),
    ...toldRules(stage).map((rule) => ruleLine(rule, chain)),
    ...(policy === "drop" ? ["    policy drop"] : []),
  ];
}

function ruleLine({ chain, rule, verdict, means }: NamedRule, base: string): string {
  const where = chain === base ? "" : `${chain}: `;
  const result = verdict === "continue" ? "" : ` -> ${verdict}`;
  return `    ${where}${rule}${result}${means === undefined ? "" : ` (${means})`}`;
}
