import { expect, test, vi } from "vitest";
import { loadRequest } from "../../../src/cli/options.ts";
import { resolveOptions } from "../../../src/config/resolve.ts";

test("loadRequest opens standard input only if objects are loaded from it", () => {
  const stdin = vi.spyOn(process, "stdin", "get");
  const { options } = resolveOptions();
  loadRequest({}, options);
  loadRequest({ from: ["web.yaml"] }, options);
  expect(stdin).not.toHaveBeenCalled();
  loadRequest({ from: ["web.yaml", "-"] }, options);
  expect(stdin).toHaveBeenCalled();
  stdin.mockRestore();
});
