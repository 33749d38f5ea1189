import {
  CONNECTION_HAS_DNAT,
  CONNECTION_IS_ESTABLISHED,
  concat,
  hasTcpFlag,
  matches,
  meta,
} from "../../nft/ast/expression.ts";
import type { Expression, Rule } from "../../nft/ast/json.ts";
import type { Chain, DataType, SetSpec } from "../../nft/ast/ruleset.ts";
import type { FamilyContext, RulesetPart, Settings } from "../../ruleset/node-context.ts";
import { addressType, PLAIN } from "../../ruleset/set-specs.ts";

/** The name of the feature. */
export const FEATURE = "connection-life";

/** TCP endpoints (address and port) that recently left every EndpointSlice, or terminate for too long. */
export const VANISHED = "vanished";

/** The chain that resets connections to vanished endpoints. */
export const VANISHED_CHECK = "vanished-endpoints-check";

/** Maximum number of endpoints in {@link VANISHED} for each family; the daemon chooses them. */
export const MOST_VANISHED = 4096;

/** Time that an endpoint stays in {@link VANISHED}. Seconds. */
export const VANISHED_SECONDS = 900;

/** Extra time before the kernel deletes an endpoint, in case the daemon exited before doing so. Seconds. */
export const VANISHED_MARGIN = 60;

/** Whether connections to endpoints that left a Service are reset unless it says otherwise. */
export function isResetByDefault(settings: Settings): boolean {
  return settings.resetVanished === true;
}

export const rules: RulesetPart = {
  name: FEATURE,
  specs,
  chains: vanishedCheck,
  isAlways: ({ settings }) => isResetByDefault(settings),
  ownSet: VANISHED,
  breaksConnections: true,
  beforeTranslation: [[CONNECTION_IS_ESTABLISHED, CONNECTION_HAS_DNAT, { jump: { target: VANISHED_CHECK } }]],
  onRefusal: [resetAmidConnection()],
};

/**
 * The set holds twice the daemon's maximum, so that leftovers of an earlier daemon leave room for new
 * endpoints.
 */
function specs({ family }: Pick<FamilyContext, "family">): readonly SetSpec[] {
  const key: DataType[] = [addressType(family), "inet_service"];
  const [size, timeout] = [2 * MOST_VANISHED, VANISHED_SECONDS + VANISHED_MARGIN];
  return [{ ...PLAIN, name: VANISHED, key, size, timeout }];
}

/**
 * Resets TCP connections whose packets reach a frontend without endpoints. The kernel forgets masqueraded
 * connections when their outgoing interface is deleted, as with a pod. Later packets then start a new
 * connection. If there are other endpoints, one of them gets the packet and resets it.
 */
function resetAmidConnection(): Rule {
  return [hasTcpFlag("ack"), { counter: null }, { reject: { type: "tcp reset" } }];
}

/**
 * The chain that resets a client's connection if its endpoint has vanished or drained. It comes before the
 * translation, so that the reset has the address that the client knows: resets from bridges that call these
 * hooks (br_netfilter) bypass connection tracking, which would translate them. Later hooks may never see the
 * packet, as the kernel drops it if the endpoint's route is gone. Here, the endpoint is known as the source
 * of replies.
 */
function vanishedCheck({ family }: Pick<FamilyContext, "family">): readonly Chain[] {
  const reply = (key: string): Expression => ({ ct: { key, dir: "reply" } });
  const rule: Rule = [
    matches({ ct: { key: "direction" } }, "original"),
    matches(meta("l4proto"), "tcp"),
    matches(concat(reply(`${family} saddr`), reply("proto-src")), `@${VANISHED}`),
    { counter: null },
    { reject: { type: "tcp reset" } },
  ];
  return [{ name: VANISHED_CHECK, rules: [rule] }];
}
