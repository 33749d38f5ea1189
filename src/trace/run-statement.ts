import { isRecord } from "../base/text.ts";
import type {
  AnyExpression,
  AnyLookup,
  AnyNat,
  AnySet,
  AnyStatement,
  AnyUpdate,
  ContentOf,
} from "../nft/ast/any-table.ts";
import type { ElementStatement, Verdict } from "../nft/ast/json.ts";
import { TABLE_NAME } from "../nft/ast/ruleset.ts";
import { splitParts, verdictJson, verdictText } from "../nft/elements.ts";
import { addEffect, type Branch, type Evaluated, UNKNOWN } from "./branch.ts";
import { expressionValue } from "./expression-value.ts";
import { matches } from "./matches.ts";
import { isLocal } from "./packet.ts";
import { branchKey, elementValue, lookUp, setOf } from "./set-lookup.ts";

/**
 * How to continue after a statement: with the next statement, the next rule (`break`), or a verdict.
 * `undecided` follows a comparison with an unknown result; `not-understood` a statement that may do anything.
 */
export type Result = "continue" | "break" | "undecided" | "not-understood" | "refuse" | Verdict;

const ACCEPT: Verdict = { accept: null };

/** `flow` only changes the path of later packets, and `ct timeout` the lifetime of the connection. */
const PASSIVE = ["match", "counter", "flow", "ct timeout", "noEffect", "condition"];

/** Whether a statement only compares, counts or logs. */
export function isPassive(statement: AnyStatement): boolean {
  return PASSIVE.some((kind) => kind in statement);
}

/** Runs one statement on the current packet. */
export function runStatement(branch: Branch, statement: AnyStatement): Result {
  if ("match" in statement) {
    const truth = matches(branch, statement.match);
    return truth === UNKNOWN ? "undecided" : truth ? "continue" : "break";
  }
  if ("vmap" in statement) return runVerdictMap(branch, statement.vmap);
  if ("mangle" in statement) return runMangle(branch, statement.mangle);
  if ("map" in statement) return updateSet(branch, statement.map, statement.map.map, statement.map.data);
  if ("set" in statement) {
    const { set, stmt = [] } = statement.set;
    const most = stmt.flatMap(limitOf)[0];
    if (most !== undefined) return countInSet(branch, statement.set, set, most);
    return updateSet(branch, statement.set, set);
  }
  if ("dnat" in statement) return runDnat(branch, statement.dnat);
  if ("snat" in statement) return runSnat(branch, statement.snat);
  if ("masquerade" in statement) return runMasquerade(branch);
  if ("reject" in statement) return runReject(branch, statement.reject);
  if ("counter" in statement || "flow" in statement || "noEffect" in statement) return "continue";
  if ("ct timeout" in statement) {
    addEffect(branch, { kind: "timeouts", object: statement["ct timeout"] });
    return "continue";
  }
  if ("condition" in statement) return "undecided";
  return "notUnderstood" in statement ? "not-understood" : runVerdict(branch, statement);
}

/** Adds the implied comparison with a protocol or family, which nft (1.1.3) does not list. */
function runReject(branch: Branch, reject: unknown): Result {
  const { packet, family } = branch.evaluation;
  const type = isRecord(reject) ? reject.type : undefined;
  if (type === "tcp reset" && packet.protocol !== "tcp") return "break";
  if ((type === "icmp" && family !== "ip") || (type === "icmpv6" && family !== "ip6")) return "break";
  addEffect(branch, { kind: "reject", reset: type === "tcp reset" });
  return "refuse";
}

function runVerdict(branch: Branch, verdict: Verdict): Result {
  addEffect(branch, { kind: "verdict", verdict: verdictText(verdict) });
  return verdict;
}

function runVerdictMap(branch: Branch, { key, data }: AnyLookup): Result {
  const found = lookUp(branch, data, expressionValue(branch, key));
  if (found === UNKNOWN) return "not-understood";
  return found === undefined ? "break" : verdictJson(found);
}

/** Assigns a mark or the priority. An unknown value makes the register unknown. */
function runMangle(branch: Branch, { key, value }: ContentOf<AnyStatement, "mangle">): Result {
  const assigned = expressionValue(branch, value);
  if (assigned === undefined) return "break";
  const number = typeof assigned === "number" ? assigned : undefined;
  const isHash = typeof value === "object" && "jhash" in value;
  if (typeof key !== "object") return "not-understood";
  // Nothing that is evaluated reads this field.
  if ("payload" in key && "field" in key.payload && key.payload.field === "dscp") return "continue";
  if ("ct" in key && key.ct.key === "mark") branch.connectionMark = number;
  else if ("meta" in key && (key.meta.key === "mark" || key.meta.key === "priority")) {
    branch[key.meta.key] = number;
    // A random number is already an effect since its fork, and a hash since its value was computed.
    if (number !== undefined && !isHash && branch.random === undefined) {
      addEffect(branch, { kind: "assigned", register: key.meta.key, value: number });
    }
  } else return "not-understood";
  branch.changes++;
  return "continue";
}

/** The limit of a statement that counts: connections, or packets in a burst. It matches only beyond that. */
function limitOf(statement: ElementStatement): readonly number[] {
  if ("ct count" in statement) return [statement["ct count"].val];
  return "limit" in statement ? [statement.limit.burst] : [];
}

/**
 * Counts a packet in an element: continues beyond the limit; otherwise, or if the set is full, ends the rule.
 * The value of an element is the number of earlier connections, or of packets that came just before. It is
 * not known for other software's sets.
 */
function countInSet(branch: Branch, { elem }: AnyUpdate, reference: string, most: number): Result {
  const set = setOf(branch, reference);
  const key = expressionValue(branch, keyOf(elem));
  if (key === undefined) return "break";
  if (set === undefined || key === UNKNOWN || branch.table?.name !== TABLE_NAME) return "not-understood";
  const known = elementValue(branch, set, String(key));
  if (known === undefined && noteIfFull(branch, set)) return "break";
  const count = Number(known ?? 0);
  if (count >= most) {
    addEffect(branch, { kind: "beyond", set: set.spec.name, most });
    return "continue";
  }
  putElement(branch, set, String(key), String(count + 1));
  return "break";
}

function keyOf(elem: AnyUpdate["elem"]): AnyExpression {
  return typeof elem === "object" && "elem" in elem ? elem.elem.val : elem;
}

/**
 * Runs `add`, `update` or `delete` of a dynamic set's or map's element. An existing element keeps its value,
 * and its timeout restarts. Source: net/netfilter/nft_dynset.c, Linux 6.18.
 * @param data the value of a map's element; absent in a set
 */
function updateSet(
  branch: Branch,
  { op, elem }: AnyUpdate,
  reference: string,
  data: AnyExpression = "",
): Result {
  const set = setOf(branch, reference);
  const given = expressionValue(branch, keyOf(elem));
  const added = expressionValue(branch, data);
  if (given === undefined || added === undefined) return "break";
  if (set === undefined || given === UNKNOWN || added === UNKNOWN) return "not-understood";
  const [map, key] = [set.spec.name, String(given)];
  const known = elementValue(branch, set, key);
  if (op === "delete") {
    if (known === undefined) return "continue";
    addEffect(branch, { kind: "deleted", map, key });
    putElement(branch, set, key, undefined);
  } else {
    if (known === undefined && noteIfFull(branch, set)) return "break";
    const ofElement = typeof elem === "object" && "elem" in elem ? elem.elem.timeout : 0;
    const timeout = ofElement || (set.spec.timeout ?? 0);
    const updated = { map, key, value: known ?? String(added), timeout };
    addEffect(branch, { kind: "updated", ...updated });
    putElement(branch, set, key, updated.value);
    const { family = "ip", name = "" } = branch.table ?? {};
    branch.updates = [...branch.updates, { ...updated, table: { family, name } }];
  }
  branch.changes++;
  return "continue";
}

/** @param value undefined to delete the element */
function putElement(branch: Branch, set: AnySet, key: string, value: string | undefined): void {
  branch.dynamicChanges = new Map(branch.dynamicChanges).set(`${branchKey(branch, set)} ${key}`, value);
}

/**
 * Notes that a set is full, if it is, after what this packet has added and deleted.
 * @returns whether it is full
 */
function noteIfFull(branch: Branch, set: AnySet): boolean {
  const { size = Number.POSITIVE_INFINITY, name } = set.spec;
  const own = branchKey(branch, set);
  const before = branch.evaluation.dynamicBefore.get(own) ?? set.elements;
  let filling = before.size;
  for (const [changed, value] of branch.dynamicChanges) {
    if (!changed.startsWith(`${own} `)) continue;
    filling += Number(value !== undefined) - Number(before.has(changed.slice(own.length + 1)));
  }
  if (filling < size) return false;
  addEffect(branch, { kind: "full", map: name });
  return true;
}

/**
 * Translates the destination. This also accepts the packet and skips the hook's later nat chains. The
 * connection counts as translated only if address or port change. Source: net/netfilter/nft_nat.c and
 * nf_nat_core.c, Linux 6.18.
 */
function runDnat(branch: Branch, { family, addr, port }: AnyNat): Result {
  if (!isOfFamily(branch, family)) return "continue";
  const target = addr === undefined ? branch.destination : expressionValue(branch, addr);
  const given = port === undefined ? undefined : expressionValue(branch, port);
  if (target === undefined || (port !== undefined && given === undefined)) return "break";
  const to = destinationOf(branch, target, given);
  if (to === undefined) return "not-understood";
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
function isOfFamily(branch: Branch, family: string | undefined): boolean {
  return family === undefined || family === branch.evaluation.family;
}

/** Translates the source to a given address, or to one of several. */
function runSnat(branch: Branch, { family, addr = "" }: AnyNat): Result {
  if (!isOfFamily(branch, family)) return "continue";
  if (isSeveral(addr)) return translateSource(branch, undefined);
  const source = expressionValue(branch, addr);
  if (source === undefined) return "break";
  if (source === UNKNOWN) return "not-understood";
  // Without an address, only the port changes.
  return translateSource(branch, source === "" ? branch.source : splitParts(String(source))[0]);
}

function isSeveral(address: AnyExpression): boolean {
  return typeof address === "object" && ("range" in address || "prefix" in address);
}

/** Over loopback, masquerading keeps the source of the node's own packets. */
function runMasquerade(branch: Branch): Result {
  const { host, packet } = branch.evaluation;
  const isKept = packet.from.at === "node" && isLocal(host, branch.destination);
  return translateSource(branch, isKept ? branch.source : undefined);
}

/**
 * Outcomes call each translation of the source masquerading.
 * @param source undefined if the kernel chooses it
 */
function translateSource(branch: Branch, source: string | undefined): Result {
  branch.source = source;
  branch.masqueraded = true;
  branch.sourceNatDone = true;
  branch.changes++;
  addEffect(branch, { kind: "masquerade" });
  return ACCEPT;
}
