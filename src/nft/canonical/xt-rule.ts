/**
 * Reads rules of iptables-nft from nft's text. nft's JSON names an extension (`-m conntrack --ctstate NEW`)
 * without its parameters, but its text translates most extensions into nft's own words:
 * https://wiki.nftables.org/wiki-nftables/index.php/Moving_from_iptables_to_nftables
 */

/** Whether a rule, as the list `expr` of `nft -j list`, has an xtables extension. */
export function hasExtension(expr: unknown): boolean {
  return (
    Array.isArray(expr) &&
    expr.some((statement) => typeof statement === "object" && "xt" in (statement ?? {}))
  );
}

/**
 * Reads a rule from its text, into the list `expr` that `nft -j list` would print without extensions.
 * @param text the rule as `nft list` prints it
 * @returns undefined if any part of the text is unknown
 */
export function translatedRule(text: string): readonly unknown[] | undefined {
  const statements: unknown[] = [];
  let rest = text.trim();
  while (rest !== "") {
    const found = firstStatement(rest);
    if (found === undefined) return undefined;
    statements.push(found.statement);
    rest = rest.slice(found.length).trimStart();
  }
  return statements;
}

function firstStatement(text: string): { readonly statement: unknown; readonly length: number } | undefined {
  for (const [pattern, read] of STATEMENTS) {
    const match = pattern.exec(text);
    if (match !== null) return { statement: read({ ...match.groups }), length: match[0].length };
  }
  return undefined;
}

type Parts = Readonly<Record<string, string>>;

/** The text of a statement, and what reads its named parts. */
type Reading = readonly [pattern: RegExp, read: (parts: Parts) => unknown];

/** The end of a statement: a blank, or the end of the rule. */
const END = "(?= |$)";
const PORT = "\\d+(?:-\\d+)?";
const ADDRESS = "[\\da-f.:]+";

/** Matches a pattern at the start of a text. A blank matches any number of blanks. */
function statement(pattern: string, read: Reading[1]): Reading {
  return [new RegExp(`^${pattern.replaceAll(" ", " +")}${END}`), read];
}

const STATEMENTS: readonly Reading[] = [
  statement("counter packets \\d+ bytes \\d+", () => ({ counter: null })),
  statement('log(?: prefix "[^"]*")?(?: level [a-z]+)?', () => ({ log: null })),
  // A set of bits matches any of them; with `!=`, nft compares the whole.
  statement("ct (?<key>state|status) (?<bits>[a-z]+(?:,[a-z]+)*)", ({ key, bits = "" }) => ({
    match: { op: "in", left: { ct: { key } }, right: bits.split(",") },
  })),
  statement("(?:ip protocol|meta l4proto) (?<not>!= )?(?<protocol>tcp|udp|sctp)", ({ not, protocol }) =>
    compared(not, { meta: { key: "l4proto" } }, protocol),
  ),
  statement(
    `(?<protocol>tcp|udp|sctp) (?<field>[sd]port) (?<not>!= )?(?:(?<port>${PORT})|{ (?<ports>${PORT}(?:, ${PORT})*) })`,
    ({ protocol, field, not, port, ports }) =>
      compared(not, { payload: { protocol, field } }, ports === undefined ? portOf(port) : portsOf(ports)),
  ),
  statement(
    `(?<family>ip6?) (?<field>[sd]addr) (?<not>!= )?(?<address>${ADDRESS})(?:/(?<length>\\d+))?`,
    ({ family, field, not, address, length }) =>
      compared(
        not,
        { payload: { protocol: family, field } },
        length === undefined ? address : { prefix: { addr: address, len: Number(length) } },
      ),
  ),
  statement('(?<key>[io]ifname) (?<not>!= )?"(?<name>[^"]+)"', ({ key, not, name }) =>
    compared(not, { meta: { key } }, name),
  ),
  statement("fib (?<field>[sd]addr) type (?<not>!= )?local", ({ field, not }) =>
    compared(not, { fib: { result: "type", flags: [field] } }, "local"),
  ),
  statement("(?<verdict>accept|drop|return)", ({ verdict = "" }) => ({ [verdict]: null })),
  statement("(?<verdict>jump|goto) (?<target>[\\w-]+)", ({ verdict = "", target }) => ({
    [verdict]: { target },
  })),
  statement("reject with tcp reset", () => ({ reject: { type: "tcp reset" } })),
  statement("reject(?: with icmp(?:v6|x)? [a-z-]+)?", () => ({ reject: null })),
];

function compared(not: string | undefined, left: unknown, right: unknown): unknown {
  return { match: { op: not === undefined ? "==" : "!=", left, right } };
}

function portOf(text = ""): unknown {
  const [first, last] = text.split("-").map(Number);
  return last === undefined ? first : { range: [first, last] };
}

function portsOf(text: string): unknown {
  return { set: text.split(",").map((port) => portOf(port.trim())) };
}
