import { expect, test } from "vitest";
import { findingsText } from "../../../../src/cli/commands/doctor.ts";

test("the doctor's text has a line for each diagnostic, its meaning, the action and the counts, without control sequences", () => {
  const found = "table ip \u001b[31mred, chain in drops by default";
  expect(
    findingsText([
      { check: "nft", level: "ok", found: "nft is 1.1.3" },
      { check: "firewall", level: "warning", found, means: "it drops", action: "let it accept" },
      { check: "kernel", level: "fault", found: "too old" },
    ]),
  ).toBe(`ok       nft: nft is 1.1.3
WARNING  firewall: table ip ?[31mred, chain in drops by default
         it drops
         -> let it accept
FAULT    kernel: too old
1 fault, 1 warning, 1 ok
`);
});
