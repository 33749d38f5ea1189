import { expect, test } from "vitest";
import { askKernel } from "../../../../src/inspect/check/kernel-verdict.ts";
import { renderAll, testNodeContext } from "../../../support/build.ts";

test("without nft the verdict is not-asked, with the reason", async () => {
  const nodeContext = testNodeContext();
  const verdict = await askKernel("/no-such-directory/nft", renderAll({}, nodeContext).state, nodeContext);
  expect(verdict).toMatchObject({
    kind: "not-asked",
    reason: expect.stringContaining("/no-such-directory/nft"),
  });
});
