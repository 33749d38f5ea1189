import { intervalText } from "../../base/address-interval.ts";
import type { DataType, SetSpec } from "../ast/ruleset.ts";
import { addressInterval } from "../canonical/address.ts";
import { parseClassid, parseProtocol } from "../canonical/constant.ts";
import { canonicalVerdict } from "../canonical/rule.ts";
import { asObject, notUnderstood } from "../canonical/shape.ts";
import { verdictText } from "../elements.ts";

// Runs once for every element of a listing, 100,000 times and more: no closures, no regular expressions.

/** An element's key as canonical text: `10.96.0.10 . tcp . 53`, or of an interval set `10.0.0.0/8`. */
export function keyText(key: unknown, spec: SetSpec): string {
  return spec.interval ? intervalKey(key, spec) : dataText(key, spec.key);
}

function intervalKey(key: unknown, { key: [type] }: SetSpec): string {
  const family = type === "ipv6_addr" ? "ip6" : "ip";
  return intervalText(family, addressInterval(family, key));
}

/** The parts of a key, or of a value that is no verdict, as canonical text. */
function dataText(data: unknown, types: readonly DataType[]): string {
  if (typeof data !== "object" || data === null) return partText(data, types[0]);
  const { concat } = data as { concat?: unknown };
  if (!Array.isArray(concat) || concat.length !== types.length) throw notUnderstood("element", data);
  let text = partText(concat[0], types[0]);
  for (let i = 1; i < types.length; i++) text += ` . ${partText(concat[i], types[i])}`;
  return text;
}

function partText(part: unknown, type: DataType | undefined): string {
  if (type === "classid") return String(parseClassid(part));
  if (type === "inet_proto" && part !== "tcp" && part !== "udp") return parseProtocol(part);
  if (typeof part === "string") return part;
  if (typeof part === "number") return String(part);
  throw notUnderstood("element", part);
}

/** The value of a map's element as canonical text; "" in a set. */
export function valueText(value: unknown, type: SetSpec["value"]): string {
  if (type === undefined) return "";
  return type === "verdict" ? verdictTextOf(value) : dataText(value, type);
}

function verdictTextOf(value: unknown): string {
  const verdict = canonicalVerdict(asObject(value, "verdict"));
  if (verdict === undefined) throw notUnderstood("verdict", value);
  return verdictText(verdict);
}
