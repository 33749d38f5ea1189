import { boolean } from "../../base/option.ts";
import { verdictTarget } from "../../nft/elements.ts";
import type { Feature, Finding } from "../seam/feature.ts";
import { ANSWER_INSIDE, ANSWER_PING, PING_IPS } from "./answers.ts";
import { createDaemonPart } from "./daemon-part.ts";
import { reasonOf } from "./reasons.ts";
import { answersPing, FEATURE, rules } from "./rules.ts";

const SILENT: Finding = {
  level: "warning",
  found: "addresses of Services will no longer answer pings",
  means: "with ipvs they do, whether or not a Service has endpoints",
  action: "set --answer-ping (nftProxy.answerPing) if something pings them",
};

export const echoReplies: Feature = {
  name: FEATURE,
  isEnabled: (settings) => (settings as { readonly answerPing?: boolean }).answerPing === true,
  options: {
    answerPing: boolean({
      path: "nftProxy.answerPing",
      preset: false,
      flag: "Answer pings (ICMP and ICMPv6 echo requests) to cluster IPs, external IPs and load-balancer IPs of Services that have endpoints",
    }),
  },
  ruleset: rules,
  createDaemonPart,
  ipvs: {
    check: "migration-pings",
    findings: ({ context }) => (context === undefined || answersPing(context) ? [] : [SILENT]),
  },
  words: {
    found: { [PING_IPS]: foundWords },
    translations: {
      [ANSWER_PING]: "this node answers with its own address, which becomes the Service's in the answer",
    },
    reason: reasonOf,
    atNodeAddress: (_, context) => {
      const reason = "with --answer-ping, every node answers pings to it itself, even if that Node is down";
      return answersPing(context) ? { code: "ping-on-node", reason } : undefined;
    },
  },
};

/** Describes the clients that get an answer to echo requests. */
function foundWords(verdict: string): string {
  switch (verdictTarget(verdict)) {
    case ANSWER_PING:
      return "an address of a Service with endpoints";
    case ANSWER_INSIDE:
      return "an address that, without an endpoint on this node, answers only pods and this node";
    default:
      return "an address that answers some clients, such as those in source ranges";
  }
}
