import { expect, test } from "vitest";
import type { Diagnostic } from "../../../../src/kube/files/diagnostic.ts";
import { compareDiagnostics } from "../../../../src/kube/files/diagnostic.ts";

test("diagnostics of one line are sorted by their paths, and numbers in these by their value", () => {
  const at = (path: string, severity: Diagnostic["severity"] = "warning"): Diagnostic => {
    return {
      file: "a.json",
      document: 1,
      line: 1,
      path,
      severity,
      code: "without-feature",
      reason: "is wrong",
    };
  };
  const all = [at("spec.ports[10]"), at("spec.ports[2]"), at("spec.type"), at("spec.type", "error")];
  expect(all.sort(compareDiagnostics).map(({ path, severity }) => `${severity} ${path}`)).toEqual([
    "error spec.type",
    "warning spec.ports[2]",
    "warning spec.ports[10]",
    "warning spec.type",
  ]);
});
