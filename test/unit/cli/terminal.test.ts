import { expect, test } from "vitest";
import { styleFor, terminalProgress } from "../../../src/cli/terminal.ts";

function stream(isTTY?: boolean) {
  const written: string[] = [];
  return { written, write: (text: string) => written.push(text), ...(isTTY === undefined ? {} : { isTTY }) };
}

test("progress shows each step in one line of a terminal, and clears it", () => {
  const terminal = stream(true);
  const progress = terminalProgress(terminal, {});
  progress.step("reading");
  progress.step("asking");
  progress.clear();
  progress.clear();
  expect(terminal.written).toEqual(["\r\u001b[Kreading ...", "\r\u001b[Kasking ...", "\r\u001b[K"]);
});

test.each([
  ["a pipe", undefined, {}],
  ["a terminal without control sequences", true, { TERM: "dumb" }],
])("progress prints nothing into %s", (_what, isTTY, environment) => {
  const pipe = stream(isTTY);
  const progress = terminalProgress(pipe, environment);
  progress.step("reading");
  progress.clear();
  expect(pipe.written).toEqual([]);
});

test.each([
  ["a terminal of 60 columns", { isTTY: true, columns: 60 }, {}, 60],
  ["a terminal whose COLUMNS says otherwise", { isTTY: true, columns: 60 }, { COLUMNS: "100" }, 100],
  ["a terminal without a size", { isTTY: true, columns: 0 }, {}, Number.POSITIVE_INFINITY],
  ["a pipe", {}, {}, Number.POSITIVE_INFINITY],
  ["a pipe where COLUMNS is set", {}, { COLUMNS: "72" }, 72],
  ["a pipe where COLUMNS is no number", {}, { COLUMNS: "wide" }, Number.POSITIVE_INFINITY],
])("lines for %s are broken at its width", (_what, terminal, environment, columns) => {
  expect(styleFor(terminal, environment).columns).toBe(columns);
});
