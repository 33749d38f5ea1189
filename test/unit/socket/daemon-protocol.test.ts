import { expect, test } from "vitest";
import {
  receivedNodeContext,
  type SentNodeContext,
  sentNodeContext,
} from "../../../src/socket/daemon-protocol.ts";
import { testNodeContext } from "../../support/build.ts";

const overJson = (sent: SentNodeContext) => JSON.parse(JSON.stringify(sent)) as SentNodeContext;

test.each([[{}], [{ features: [] }], [{ lacking: ["client-limits"], settings: { maxLimitedClients: 7 } }]])(
  "a node context with %j is received as it was sent",
  (options) => {
    const context = testNodeContext(options);
    expect(receivedNodeContext(overJson(sentNodeContext(context)))).toEqual(context);
  },
);

test("a node context of an older daemon has every feature that it does not name and no option enables", () => {
  const context = testNodeContext({ refusalLogSize: 0 });
  const older = sentNodeContext(context).map(
    ({ features: _features, lacking: _lacking, settings: _settings, ...others }) => others,
  );
  const received = receivedNodeContext(overJson(older));
  expect(received).toEqual(context.map((one) => ({ ...one, lacking: [], settings: {} })));
});
