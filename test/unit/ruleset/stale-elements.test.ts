import { expect, test } from "vitest";
import { StaleElements } from "../../../src/ruleset/stale-elements.ts";

test.each([2, 1.5])("of %s elements to delete, deletes two in a call, also of several deletions", (most) => {
  const deleted: string[] = [];
  function* deletion(name: string) {
    for (let n = 0; n < 3; n++) {
      deleted.push(`${name}${n}`);
      yield;
    }
  }
  const stale = new StaleElements();
  for (const name of ["a", "b"]) stale.add(deletion(name));
  const calls: string[][] = [];
  while (stale.isAny) {
    stale.delete(most);
    calls.push(deleted.splice(0));
  }
  expect(calls).toEqual([["a0", "a1"], ["a2", "b0"], ["b1", "b2"], []]);
});
