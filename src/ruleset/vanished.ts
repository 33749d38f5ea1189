import {
  CONNECTION_HAS_DNAT,
  CONNECTION_IS_ESTABLISHED,
  concat,
  matches,
  meta,
} from "../nft/ast/expression.ts";
import type { Expression, Rule, Statement } from "../nft/ast/json.ts";
import type { StaticChain, StaticChainName } from "./chain-names.ts";
import type { FamilyContext } from "./node-context.ts";
import { VANISHED } from "./sets.ts";

/** The chain that resets connections to vanished endpoints. */
export const VANISHED_CHECK = "vanished-endpoints-check" satisfies StaticChainName;

/** The chains that a table has only while connections may be reset. */
export const RESET_CHAINS = [
  "filter-prerouting-pre-dnat",
  "filter-output-pre-dnat",
  VANISHED_CHECK,
] as const satisfies readonly StaticChainName[];

/**
 * Resets TCP connections whose packets reach a frontend without endpoints; no rules unless needed. The kernel
 * forgets masqueraded connections when their outgoing interface is deleted, as with a pod. Later packets then
 * start a new connection. If there are other endpoints, one of them gets the packet and resets it.
 */
export function resetsAmidConnection({ resetVanished }: Pick<FamilyContext, "resetVanished">): Rule[] {
  if (!resetVanished) return [];
  const isAmid: Statement = {
    match: { op: "in", left: { payload: { protocol: "tcp", field: "flags" } }, right: "ack" },
  };
  return [[isAmid, { counter: null }, { reject: { type: "tcp reset" } }]];
}

/**
 * Sends packets of translated connections to {@link VANISHED_CHECK}; no rules unless needed. It comes before
 * the translation, so that the reset has the address that the client knows: resets from bridges that call
 * these hooks (br_netfilter) bypass connection tracking, which would translate them. Later hooks may never
 * see the packet, as the kernel drops it if the endpoint's route is gone.
 */
export function jumpsToVanishedCheck({ resetVanished }: Pick<FamilyContext, "resetVanished">): Rule[] {
  if (!resetVanished) return [];
  return [[CONNECTION_IS_ESTABLISHED, CONNECTION_HAS_DNAT, { jump: { target: VANISHED_CHECK } }]];
}

/**
 * The chain that resets a client's connection if its endpoint has vanished or drained. Before the
 * translation, the endpoint is known as the source of replies.
 */
export function vanishedCheck({
  family,
  resetVanished,
}: Pick<FamilyContext, "family" | "resetVanished">): readonly StaticChain[] {
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
