import {
  CONNECTION_HAS_DNAT,
  CONNECTION_IS_ESTABLISHED,
  concat,
  matches,
  meta,
} from "../nft/ast/expression.ts";
import type { Expression, Rule, Statement } from "../nft/ast/json.ts";
import type { StaticChainName } from "./chain-names.ts";
import type { FamilyContext } from "./node-context.ts";
import { VANISHED } from "./sets.ts";

/** The chain that resets connections to endpoints that are gone. */
export const VANISHED_CHECK = "vanished-endpoints-check" satisfies StaticChainName;

/**
 * Answers packets amid a TCP connection to a frontend without endpoints with a reset; none unless that is asked for. The
 * kernel forgets connections that it masqueraded when the interface that they left by is deleted, as with a pod: packets
 * that follow begin a new one. Where there are other endpoints, one of them gets the packet, and resets it.
 */
export function resetsAmidConnection({ resetVanished }: Pick<FamilyContext, "resetVanished">): Rule[] {
  if (!resetVanished) return [];
  const isAmid: Statement = {
    match: { op: "in", left: { payload: { protocol: "tcp", field: "flags" } }, right: "ack" },
  };
  return [[isAmid, { counter: null }, { reject: { type: "tcp reset" } }]];
}

interface VanishedCheckChain {
  readonly name: typeof VANISHED_CHECK;
  readonly rules: readonly Rule[];
}

/**
 * Leads packets of translated connections to {@link VANISHED_CHECK}; none unless that is asked for. The rule stands before
 * the translation, so that the reset comes from the address that the client knows: bridges that call these hooks
 * (br_netfilter) send resets past connection tracking, which would translate it. And the endpoint's route may be gone: then the
 * kernel drops the packet between the translation and the later hooks.
 */
export function jumpsToVanishedCheck({ resetVanished }: Pick<FamilyContext, "resetVanished">): Rule[] {
  if (!resetVanished) return [];
  return [[CONNECTION_IS_ESTABLISHED, CONNECTION_HAS_DNAT, { jump: { target: VANISHED_CHECK } }]];
}

/**
 * The chain that answers a client's packet with a TCP reset when its connection's endpoint is gone. Before the
 * translation, the endpoint is known as the source of replies.
 */
export function vanishedCheck({
  family,
  resetVanished,
}: Pick<FamilyContext, "family" | "resetVanished">): readonly VanishedCheckChain[] {
  if (!resetVanished) return [];
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
