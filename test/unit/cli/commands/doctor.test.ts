import { expect, test } from "vitest";
import { findingsText } from "../../../../src/cli/commands/doctor.ts";
import { COLOURED, PLAIN } from "../../../../src/cli/terminal.ts";
import type { HostFinding } from "../../../../src/inspect/doctor/finding.ts";

const FINDINGS: readonly HostFinding[] = [
  { check: "nft", level: "ok", found: "nft is 1.1.3" },
  {
    check: "firewall",
    level: "warning",
    found: "table ip \u001b[31mred, chain in drops by default",
    means: "it drops",
    action: "let it accept",
  },
  { check: "kernel", level: "fault", found: "too old" },
];

test("the doctor's text has a line for each diagnostic, its meaning, the action and the counts, without control sequences", () => {
  expect(findingsText(FINDINGS, PLAIN)).toBe(`ok       nft: nft is 1.1.3
WARNING  firewall: table ip ?[31mred, chain in drops by default
         it drops
         -> let it accept
FAULT    kernel: too old
1 fault, 1 warning, 1 ok
`);
});

test("the doctor's text on a terminal is coloured by level, and wrapped to its columns", () => {
  const text = findingsText(FINDINGS, { ...COLOURED, columns: 30 });
  expect(text).toContain("\u001b[32mok\u001b[39m       nft: nft is 1.1.3\n");
  expect(text).toContain("\u001b[31mWARNING\u001b[39m  firewall: table ip\n         ?[31mred, chain in");
});
