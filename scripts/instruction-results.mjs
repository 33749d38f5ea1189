// instruction-results.mjs DIR RELEASE...: prints tables of the instructions that kernels.sh counted, from its
// files in DIR. Exits with 1 if a budget is exceeded or a release has no counts.
import { readFileSync } from "node:fs";
import { join } from "node:path";

/**
 * Budgets of nft-proxy in thousands of instructions. They hold for one kernel, because
 * each kernel's own work differs.
 */
const BUDGETS = [
  { release: "trixie", rules: "nft-proxy", way: "UDP, ClusterIP", flow: "new", thousands: 56.4 },
  { release: "trixie", rules: "nft-proxy", way: "UDP, ClusterIP", flow: "established", thousands: 35.0 },
  { release: "trixie", rules: "fast-path", way: "UDP, ClusterIP", flow: "established", thousands: 29.1 },
];

const [dir, ...releases] = process.argv.slice(2);
const faults = [];
for (const release of releases) {
  const counted = read(release);
  if (counted === undefined)
    faults.push(`${release}: not counted, see ${join(dir, `instructions-${release}.log`)}`);
  else {
    console.log(
      `\nThousands of instructions of a round trip, ${counted.kernel}, ${counted.nft}:\n\n${table(counted.counts)}`,
    );
    faults.push(...exceeded(release, counted.counts));
  }
}
for (const fault of faults) console.error(`kernels: ${fault}`);
process.exitCode = faults.length === 0 ? 0 : 1;

function read(release) {
  try {
    return JSON.parse(readFileSync(join(dir, `instructions-${release}.json`), "utf8"));
  } catch {
    return undefined;
  }
}

/** The median of all counts of one cell, in thousands. */
function thousands(counts, rules, way, flow) {
  const found = counts.filter((count) => count.rules === rules && count.way === way && count.flow === flow);
  const sorted = found.map(({ instructions }) => instructions).sort((a, b) => a - b);
  const middle = sorted.slice(Math.ceil(sorted.length / 2) - 1, Math.floor(sorted.length / 2) + 1);
  return middle.reduce((sum, instructions) => sum + instructions, 0) / middle.length / 1000;
}

function table(counts) {
  const names = [...new Set(counts.map(({ rules }) => rules))];
  const rows = new Map(counts.map(({ way, flow }) => [`${way}, ${flow}`, { way, flow }]));
  const body = [...rows].map(([title, { way, flow }]) => [
    title,
    ...names.map((rules) => thousands(counts, rules, way, flow).toFixed(1)),
  ]);
  const lines = [["round trip", ...names], ...body];
  const widths = lines[0].map((_, column) => Math.max(...lines.map((line) => line[column].length)));
  const [head, ...rest] = [lines[0], widths.map((width) => "-".repeat(width)), ...body].map(
    (line) => `| ${line.map((cell, column) => cell.padEnd(widths[column])).join(" | ")} |`,
  );
  return [head, ...rest].join("\n");
}

function exceeded(release, counts) {
  return BUDGETS.filter((budget) => budget.release === release).flatMap(
    ({ rules, way, flow, thousands: budget }) => {
      const found = thousands(counts, rules, way, flow);
      return found <= budget
        ? []
        : [
            `${release}: ${rules}: ${way}, ${flow}: ${found.toFixed(1)} thousand instructions, at most ${budget}`,
          ];
    },
  );
}
