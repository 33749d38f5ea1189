import { expect, test } from "vitest";
import { costlyTablesAdvice } from "../../../src/kernel/others-sets.ts";

test("the advice names the command that removes kube-proxy's tables if they are costly", () => {
  const table = (name: string) => ({ table: name, sets: 10_000, ms: 20 });
  expect(costlyTablesAdvice([table("inet big"), table("ip6 kube-proxy")])).toContain("cleanup --kube-proxy");
  expect(costlyTablesAdvice([table("inet kube-proxy-x")])).not.toContain("cleanup");
});
