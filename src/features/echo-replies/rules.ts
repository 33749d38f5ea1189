import {
  assign,
  concat,
  dnatToAddress,
  echoRequest,
  lookup,
  masked,
  matches,
  meta,
  randomNumber,
  verdictMap,
} from "../../nft/ast/expression.ts";
import type { Rule } from "../../nft/ast/json.ts";
import type { Chain, DataType, SetSpec } from "../../nft/ast/ruleset.ts";
import { REGISTER } from "../../ruleset/balancers.ts";
import { byPodOrigin, destinationAddress, FROM_NODE } from "../../ruleset/keys.ts";
import type { FamilyContext, RulesetPart } from "../../ruleset/node-context.ts";
import { addressType, PLAIN } from "../../ruleset/set-specs.ts";
import { allowedChain } from "../../ruleset/source-ranges.ts";
import {
  ANSWER_ALLOWED,
  ANSWER_INSIDE,
  ANSWER_PING,
  MOST_CONDITIONS,
  PING_IPS,
  PING_SOURCE_RANGE_LISTS,
  PingAnswers,
} from "./answers.ts";

/** The name of the feature. */
export const FEATURE = "echo-replies";

const CHECK = "answer-ping-check";
const CHECK_INSIDE = "answer-ping-inside-check";

export const rules: RulesetPart = {
  name: FEATURE,
  isAlways: () => true,
  specs: ({ family }) => [{ ...PLAIN, name: PING_IPS, key: [addressType(family)], value: "verdict" }],
  chains: answerChains,
  besideSourceRanges: { specs: sourceRangesSpecs, chains: checkChains },
  // Last, so that connections to Services do not pay for it. A packet without an answer continues: the option
  // only adds answers, and refuses nothing.
  withoutFrontend: ({ family }) => [[echoRequest(family), verdictMap(destinationAddress(family), PING_IPS)]],
  frontendElements: (parts) => new PingAnswers(parts),
  addressSets: [PING_IPS, PING_SOURCE_RANGE_LISTS],
  mostElements: ({ external, guarded }) => 1 + external + 2 * guarded,
};

/** Whether addresses of Services with endpoints answer echo requests. */
export function answersPing({ features }: Pick<FamilyContext, "features">): boolean {
  return features.includes(rules);
}

function sourceRangesSpecs({ family }: FamilyContext): SetSpec[] {
  const key: DataType[] = [addressType(family), "integer"];
  return [{ ...PLAIN, name: PING_SOURCE_RANGE_LISTS, key, value: ["classid"] }];
}

/**
 * The chains that answer echo requests. The node answers in place of the Service, by its own address, and
 * connection tracking translates the answer back. `redirect` would drop requests from interfaces without an
 * address, such as Calico's. Without an address of the family, nothing is answered.
 */
function answerChains(context: FamilyContext): readonly Chain[] {
  const { nodeAddress, masqueradeMark } = context;
  const fromPods = byPodOrigin(context, matches);
  const answer = { goto: { target: ANSWER_PING } };
  const mark = meta("mark");
  const unmark = assign(mark, masked(mark, 0xffff_ffff - masqueradeMark));
  return [
    {
      name: ANSWER_PING,
      // Requests to cluster IPs may have the mark, but are not masqueraded: the answer comes from this node.
      rules: nodeAddress === "" ? [] : [[unmark, dnatToAddress(nodeAddress)]],
    },
    {
      name: ANSWER_INSIDE,
      rules: [...(fromPods === undefined ? [] : [[fromPods, answer]]), [FROM_NODE, answer]],
    },
  ];
}

/**
 * The chains that answer echo requests to addresses with source ranges. Some lists of an address are for all
 * clients, others only for those inside the cluster. A list that allows everybody is {@link ALLOWS_ALL}.
 */
function checkChains({ family }: FamilyContext): readonly Chain[] {
  const list = (index: number) =>
    lookup(concat(destinationAddress(family), randomNumber(1, index)), PING_SOURCE_RANGE_LISTS);
  return [
    {
      name: ANSWER_ALLOWED,
      rules: [CHECK, CHECK_INSIDE].flatMap((target, part) =>
        Array.from({ length: MOST_CONDITIONS }, (_, index): Rule => {
          return [assign(REGISTER, list(part * MOST_CONDITIONS + index)), { jump: { target } }];
        }),
      ),
    },
    allowedChain(family, CHECK, ANSWER_PING),
    allowedChain(family, CHECK_INSIDE, ANSWER_INSIDE),
  ];
}
