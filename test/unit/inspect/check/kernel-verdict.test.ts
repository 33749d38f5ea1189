import { expect, test } from "vitest";
import { askKernel } from "../../../../src/inspect/check/kernel-verdict.ts";
import { renderAll, testNodeContext } from "../../../support/build.ts";

test("a kernel that cannot be asked, for lack of nft, is a verdict with the reason, not an error", async () => {
  const nodeContext = testNodeContext();
  const verdict = await askKernel("/no-such-directory/nft", renderAll({}, nodeContext).state, nodeContext);
  expect(verdict).toMatchObject({
    kind: "not-asked",
    reason: expect.stringContaining("/no-such-directory/nft"),
  });
});
