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
