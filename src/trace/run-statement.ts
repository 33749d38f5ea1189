import type {
  AnyElementStatement,
  AnyExpression,
  AnyLookup,
  AnySet,
  AnyStatement,
  ElementUpdate,
} from "../nft/ast/any-table.ts";
import type { Verdict } from "../nft/ast/json.ts";
import { TABLE_NAME } from "../nft/ast/ruleset.ts";
import { splitParts, verdictJson, verdictText } from "../nft/elements.ts";
import { addEffect, type Branch, type Evaluated, type Evaluation, UNKNOWN } from "./branch.ts";
import { expressionValue } from "./expression-value.ts";
import { matches } from "./matches.ts";
import { isLocal } from "./packet.ts";
import { branchKey, elementValue, lookUp, setOf } from "./set-lookup.ts";

/**
 * How to continue after a statement: with the next statement, the next rule (`break`), or a verdict.
 * `undecided` follows a comparison with an unknown result; `not-understood` a statement that may do anything.
 */
export type Result =
  | { readonly kind: "continue" }
  | { readonly kind: "break" }
  | { readonly kind: "undecided" }
  | { readonly kind: "not-understood" }
  | { readonly kind: "verdict"; readonly verdict: Verdict }
  | { readonly kind: "refuse" };

const CONTINUE: Result = { kind: "continue" };
const BREAK: Result = { kind: "break" };
const UNDECIDED: Result = { kind: "undecided" };
const NOT_UNDERSTOOD: Result = { kind: "not-understood" };
const ACCEPT: Result = { kind: "verdict", verdict: { accept: null } };

/** `flow` only changes the path of later packets, and `ct timeout` the lifetime of the connection. */
const PASSIVE = ["match", "counter", "flow", "ct timeout", "noEffect", "condition"];

/** Whether a statement only compares, counts or logs. */
export function isPassive(statement: AnyStatement): boolean {
  return PASSIVE.some((kind) => kind in statement);
}

/** Runs one statement on the current packet. */
export function runStatement(evaluation: Evaluation, branch: Branch, statement: AnyStatement): Result {
  if ("match" in statement) {
    const truth = matches(evaluation, branch, statement.match);
    return truth === UNKNOWN ? UNDECIDED : truth ? CONTINUE : BREAK;
  }
  if ("vmap" in statement) return runVerdictMap(evaluation, branch, statement.vmap);
  if ("mangle" in statement) return runMangle(evaluation, branch, statement.mangle);
  if ("map" in statement) {
    const { map, data } = statement.map;
    return updateSet(evaluation, branch, statement.map, map, data);
  }
  if ("set" in statement) {
    const { set, stmt = [] } = statement.set;
    const most = stmt.flatMap(limitOf)[0];
    if (most !== undefined) return countInSet(evaluation, branch, statement.set, set, most);
    return updateSet(evaluation, branch, statement.set, set);
  }
  if ("dnat" in statement) return runDnat(evaluation, branch, statement.dnat);
  if ("snat" in statement) return runSnat(evaluation, branch, statement.snat);
  if ("masquerade" in statement) return runMasquerade(evaluation, branch);
  if ("reject" in statement) return runReject(evaluation, branch, typeOfReject(statement.reject));
  if ("counter" in statement || "flow" in statement || "noEffect" in statement) return CONTINUE;
  if ("ct timeout" in statement) {
    addEffect(branch, { kind: "timeouts", object: statement["ct timeout"] });
    return CONTINUE;
  }
  if ("condition" in statement) return UNDECIDED;
  return "notUnderstood" in statement ? NOT_UNDERSTOOD : runVerdict(branch, statement);
}

function typeOfReject(reject: unknown): unknown {
  return typeof reject === "object" && reject !== null && "type" in reject ? reject.type : undefined;
}

/** Adds the implied comparison with a protocol or family, which nft (1.1.3) does not list. */
function runReject({ packet, family }: Evaluation, branch: Branch, type: unknown): Result {
  if (type === "tcp reset" && packet.protocol !== "tcp") return BREAK;
  if ((type === "icmp" && family !== "ip") || (type === "icmpv6" && family !== "ip6")) return BREAK;
  addEffect(branch, { kind: "reject", reset: type === "tcp reset" });
  return { kind: "refuse" };
}

function runVerdict(branch: Branch, verdict: Verdict): Result {
  addEffect(branch, { kind: "verdict", verdict: verdictText(verdict) });
  return { kind: "verdict", verdict };
}

function runVerdictMap(evaluation: Evaluation, branch: Branch, { key, data }: AnyLookup): Result {
  const found = lookUp(evaluation, branch, data, expressionValue(evaluation, branch, key));
  if (found === UNKNOWN) return NOT_UNDERSTOOD;
  return found === undefined ? BREAK : { kind: "verdict", verdict: verdictJson(found) };
}

type Mangle = Extract<AnyStatement, { readonly mangle: unknown }>["mangle"];

/** Assigns a mark or the priority. An unknown value makes the register unknown. */
function runMangle(evaluation: Evaluation, branch: Branch, { key, value }: Mangle): Result {
  const assigned = expressionValue(evaluation, branch, value);
  if (assigned === undefined) return BREAK;
  const number = typeof assigned === "number" ? assigned : undefined;
  if (typeof key !== "object") return NOT_UNDERSTOOD;
  // Nothing that is evaluated reads this field.
  if ("payload" in key && "field" in key.payload && key.payload.field === "dscp") return CONTINUE;
  if ("ct" in key && key.ct.key === "mark") branch.connectionMark = number;
  else if ("meta" in key && (key.meta.key === "mark" || key.meta.key === "priority")) {
    branch[key.meta.key] = number;
    // A random number or a hash is a separate effect.
    if (number !== undefined && !isDrawn(value) && branch.random === undefined) {
      addEffect(branch, { kind: "assigned", register: key.meta.key, value: number });
    }
  } else return NOT_UNDERSTOOD;
  branch.changes++;
  return CONTINUE;
}

function isDrawn(expression: AnyExpression): boolean {
  return typeof expression === "object" && "jhash" in expression;
}

/** The limit of a statement that counts: connections, or packets in a burst. It matches only beyond that. */
function limitOf(statement: AnyElementStatement): readonly number[] {
  if ("ct count" in statement) return [statement["ct count"].val];
  return "limit" in statement ? [statement.limit.burst] : [];
}

/**
 * Counts a packet in an element: continues beyond the limit; otherwise, or if the set is full, ends the rule.
 * The value of an element is the number of earlier connections, or of packets that came just before. It is
 * not known for other software's sets.
 */
function countInSet(
  evaluation: Evaluation,
  branch: Branch,
  { elem }: ElementUpdate,
  reference: string,
  most: number,
): Result {
  const set = setOf(branch, reference);
  const key = expressionValue(evaluation, branch, keyOf(elem));
  if (key === undefined) return BREAK;
  if (set === undefined || key === UNKNOWN || branch.table?.name !== TABLE_NAME) return NOT_UNDERSTOOD;
  const text = String(key);
  const known = elementValue(evaluation, branch, set, text);
  if (known === undefined && isFull(evaluation, branch, set)) {
    addEffect(branch, { kind: "full", map: set.spec.name });
    return BREAK;
  }
  if (Number(known ?? 0) >= most) {
    addEffect(branch, { kind: "beyond", set: set.spec.name, most });
    return CONTINUE;
  }
  branch.dynamic = new Map(branch.dynamic).set(
    `${branchKey(branch, set)} ${text}`,
    String(Number(known ?? 0) + 1),
  );
  return BREAK;
}

function keyOf(elem: ElementUpdate["elem"]): AnyExpression {
  return typeof elem === "object" && "elem" in elem ? elem.elem.val : elem;
}

/**
 * Runs `add`, `update` or `delete` of a dynamic set's or map's element. An existing element keeps its value,
 * and its timeout restarts. Source: net/netfilter/nft_dynset.c, Linux 6.18.
 * @param data the value of a map's element; absent in a set
 */
function updateSet(
  evaluation: Evaluation,
  branch: Branch,
  { op, elem }: ElementUpdate,
  reference: string,
  data?: AnyExpression,
): Result {
  const set = setOf(branch, reference);
  const timeout = typeof elem === "object" && "elem" in elem ? elem.elem.timeout : 0;
  const key = expressionValue(evaluation, branch, keyOf(elem));
  const value = data === undefined ? "" : expressionValue(evaluation, branch, data);
  if (key === undefined || value === undefined) return BREAK;
  if (set === undefined || key === UNKNOWN || value === UNKNOWN) return NOT_UNDERSTOOD;
  const text = String(key);
  if (op === "delete") return deleteElement(evaluation, branch, set, text);
  return putElement(evaluation, branch, set, text, String(value), timeout);
}

function deleteElement(evaluation: Evaluation, branch: Branch, set: AnySet, key: string): Result {
  if (elementValue(evaluation, branch, set, key) === undefined) return CONTINUE;
  addEffect(branch, { kind: "deleted", map: set.spec.name, key });
  branch.dynamic = new Map(branch.dynamic).set(`${branchKey(branch, set)} ${key}`, undefined);
  branch.changes++;
  return CONTINUE;
}

function putElement(
  evaluation: Evaluation,
  branch: Branch,
  set: AnySet,
  key: string,
  value: string,
  timeout: number,
): Result {
  const map = set.spec.name;
  const known = elementValue(evaluation, branch, set, key);
  if (known === undefined && isFull(evaluation, branch, set)) {
    addEffect(branch, { kind: "full", map });
    return BREAK;
  }
  const { family = "ip", name = "" } = branch.table ?? {};
  const updated = { map, key, value: known ?? value, timeout: timeout || (set.spec.timeout ?? 0) };
  addEffect(branch, { kind: "updated", ...updated });
  branch.dynamic = new Map(branch.dynamic).set(`${branchKey(branch, set)} ${key}`, updated.value);
  branch.updates = [...branch.updates, { ...updated, table: { family, name } }];
  branch.changes++;
  return CONTINUE;
}

/** Whether a set is full, counting the elements that this packet added and deleted. */
function isFull(evaluation: Evaluation, branch: Branch, set: AnySet): boolean {
  const { size } = set.spec;
  if (size === undefined) return false;
  const own = branchKey(branch, set);
  const before = evaluation.dynamic.get(own) ?? set.elements;
  let filling = before.size;
  for (const [changed, value] of branch.dynamic) {
    if (!changed.startsWith(`${own} `)) continue;
    filling += Number(value !== undefined) - Number(before.has(changed.slice(own.length + 1)));
  }
  return filling >= size;
}

type Dnat = Extract<AnyStatement, { readonly dnat: unknown }>["dnat"];

/**
 * Translates the destination. This also accepts the packet and skips the hook's later nat chains. The
 * connection counts as translated only if address or port change. Source: net/netfilter/nft_nat.c and
 * nf_nat_core.c, Linux 6.18.
 */
function runDnat(evaluation: Evaluation, branch: Branch, { family, addr, port }: Dnat): Result {
  if (!isOfFamily(evaluation, { family })) return CONTINUE;
  const target = addr === undefined ? branch.destination : expressionValue(evaluation, branch, addr);
  const given = port === undefined ? undefined : expressionValue(evaluation, branch, port);
  if (target === undefined || (port !== undefined && given === undefined)) return BREAK;
  const to = destinationOf(branch, target, given);
  if (to === undefined) return NOT_UNDERSTOOD;
  branch.translated = to.address !== branch.destination || to.port !== branch.port;
  branch.destinationNatDone = true;
  branch.destination = to.address;
  branch.port = to.port;
  branch.changes++;
  addEffect(branch, { kind: "dnat", to });
  return ACCEPT;
}

function destinationOf({ port }: Branch, target: Evaluated, given: Evaluated) {
  if (target === UNKNOWN || given === UNKNOWN) return undefined;
  const [address = "", withAddress] = String(target).split(" . ");
  return { address, port: Number(withAddress ?? given ?? port) };
}

/** A translation of the other family does nothing. Source: nft_nat_inet_eval in nft_nat.c, Linux 6.18. */
function isOfFamily(evaluation: Evaluation, { family }: { readonly family?: string | undefined }): boolean {
  return family === undefined || family === evaluation.family;
}

type Snat = Extract<AnyStatement, { readonly snat: unknown }>["snat"];

/** Translates the source to a given address, or to one of several. */
function runSnat(evaluation: Evaluation, branch: Branch, { family, addr = "" }: Snat): Result {
  if (!isOfFamily(evaluation, { family })) return CONTINUE;
  if (isSeveral(addr)) return translateSource(branch, undefined);
  const source = expressionValue(evaluation, branch, addr);
  if (source === undefined) return BREAK;
  if (source === UNKNOWN) return NOT_UNDERSTOOD;
  // Without an address, only the port changes.
  return translateSource(branch, source === "" ? branch.source : splitParts(String(source))[0]);
}

function isSeveral(address: AnyExpression): boolean {
  return typeof address === "object" && ("range" in address || "prefix" in address);
}

/** Over loopback, masquerading keeps the source of the node's own packets. */
function runMasquerade({ host, packet }: Evaluation, branch: Branch): Result {
  const isKept = packet.from.at === "node" && isLocal(host, branch.destination);
  return translateSource(branch, isKept ? branch.source : undefined);
}

function translateSource(branch: Branch, source: string | undefined): Result {
  branch.source = source;
  branch.masqueraded = true;
  branch.sourceNatDone = true;
  branch.changes++;
  addEffect(branch, { kind: "masquerade" });
  return ACCEPT;
}
