import { readFileSync } from "node:fs";
import { Ajv } from "ajv";
import { expect, test } from "vitest";
import { doctorExitCode } from "../../../../src/cli/commands/doctor.ts";
import { diagnosticsJson, diagnosticsText } from "../../../../src/cli/print/doctor-text.ts";
import type { HostDiagnostic } from "../../../../src/inspect/doctor/diagnostic.ts";

const OK: HostDiagnostic = { check: "ipv6", level: "ok", found: "both" };
const WARNING: HostDiagnostic = { check: "firewall", level: "warning", found: "drops", means: "dead", action: "open" };
const FAULT: HostDiagnostic = { check: "nft", level: "fault", found: "missing", means: "nothing works" };

test.each([
  [0, "nothing wrong", [OK], false],
  [0, "nothing wrong, with --strict", [OK], true],
  [0, "a warning", [OK, WARNING], false],
  [1, "a warning, with --strict", [OK, WARNING], true],
  [1, "a fault", [FAULT, WARNING], false],
] as const)("the doctor's exit code is %i for %s", (code, _what, findings, strict) => {
  expect(doctorExitCode(findings, strict)).toBe(code);
});

test("the doctor's text gives each diagnostic its meaning and an action", () => {
  expect(diagnosticsText([OK, WARNING, FAULT])).toBe(`ok       ipv6: both
WARNING  firewall: drops
         dead
         -> open
FAULT    nft: missing
         nothing works
1 fault, 1 warning, 1 ok
`);
});

test("the doctor's JSON matches its schema", () => {
  const schema = JSON.parse(readFileSync(new URL("../../../../schemas/doctor.schema.json", import.meta.url), "utf8"));
  const validate = new Ajv().compile(schema);
  const printed = JSON.parse(diagnosticsJson([OK, WARNING, FAULT]));
  expect(printed.worst).toBe("fault");
  expect(validate(printed)).toBe(true);
  expect(validate({ ...printed, worst: "bad" })).toBe(false);
});
