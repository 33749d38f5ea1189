import { assertNever } from "../../../base/errors.ts";
import { SCHEDULER_ANNOTATION, WEIGHT_ANNOTATION } from "../../../model/scheduler.ts";
import { type Balancer, parseChainName } from "../../../ruleset/chain-names.ts";
import type { Outcome } from "../../../trace/outcome.ts";
import type { Note } from "../explanation.ts";
import { isKept } from "../found.ts";
import type { Match } from "../match.ts";
import type { RuleStep } from "../step-words.ts";

/** The scheduler of a connection, where it is another than random or endpoints have weights. */
export function schedulerNotes(match: Match | undefined, outcomes: readonly Outcome[]): Note[] {
  const choices = outcomes.flatMap(({ steps }) =>
    steps.flatMap((step) => (step.kind === "rule" ? choiceIn(step) : [])),
  );
  const [choice] = choices;
  if (choice === undefined) return [];
  const { scheduler, slots, affinitySeconds } = choice.balancer;
  if (scheduler === "random" && !slots) return [];
  const affinity = affinitySeconds === 0 || isKept(outcomes) ? "" : "; session affinity keeps the choice";
  const message = `${scheduler} (${originOf(choice.balancer, match)}): ${schedulerWords(choice)}${affinity}`;
  return [{ topic: "scheduler", message }];
}

interface Choice {
  readonly balancer: Balancer;
  /** The slot of exactly this client, where the scheduler chooses by client. */
  readonly slot: number | undefined;
}

function choiceIn({ chain, effects }: RuleStep): Choice[] {
  const role = parseChainName(chain);
  const effect = effects.find(({ kind }) => kind === "random" || kind === "hash");
  if (role?.kind !== "balancer" || effect === undefined) return [];
  return [{ balancer: role.balancer, slot: effect.kind === "hash" ? effect.value : undefined }];
}

function originOf({ scheduler }: Balancer, match: Match | undefined): string {
  if (match?.port.service.scheduler === scheduler) return `annotation ${SCHEDULER_ANNOTATION}`;
  return scheduler === "random" ? `weights by the annotation ${WEIGHT_ANNOTATION}` : "--scheduler";
}

function schedulerWords({ balancer: { scheduler, slots, count }, slot }: Choice): string {
  const among = slots ? `${count} slots, which the endpoints share by weight` : `${count} endpoints`;
  switch (scheduler) {
    case "random":
      return `one of ${among}`;
    case "round-robin":
      return `the next of ${among}; all Services with as many share the turn`;
    case "source-hash":
      return slot === undefined
        ? `one of ${count} slots by the client's address`
        : `this client has slot ${slot} of ${count}`;
    case "flow-hash":
      return `one of ${count} slots by the addresses and ports of each connection`;
    default:
      return assertNever(scheduler);
  }
}
