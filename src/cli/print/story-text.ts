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

/**
 * The rules without those that lead from chain to chain and nowhere else: firewalld has a dozen of them for each packet.
 * Of other software, the jumps that lead to a rule are told, too.
 */
function toldRules({ table, rules }: NamedStage): readonly NamedRule[] {
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

/** Whether a rule only leaves its chain, for one that is none of `chains`. */
function doesNothing({ verdict, means }: NamedRule, chains: ReadonlySet<string>): boolean {
  if (means !== undefined) return false;
  const [, target] = /^(?:jump|goto) (.*)$/.exec(verdict) ?? [];
  return target === undefined ? verdict === "return" : !chains.has(target);
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
  const isWritten = rule === verdict || rule.endsWith(` ${verdict}`);
  const result = verdict === "continue" || isWritten ? "" : ` -> ${verdict}`;
  return `    ${where}${rule}${result}${means === undefined ? "" : ` (${means})`}`;
}
