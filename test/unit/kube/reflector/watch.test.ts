import { expect, test } from "vitest";
import { TURN } from "../../../../src/base/pieces.ts";
import type { TimedRequest } from "../../../../src/kube/client/timed-request.ts";
import { resources } from "../../../../src/kube/reflector/resources.ts";
import { watchEvents } from "../../../../src/kube/reflector/watch.ts";

test("a watch whose events come faster than they are taken lets other work run between them", async () => {
  // Everything is there already, as after a read of 2 MB.
  const body = (async function* () {
    for (let left = 4; left > 0; left--)
      yield Buffer.from(`${JSON.stringify({ type: "ADDED", object: {} })}\n`);
  })();
  const request = {
    endsWithin: () => {},
    receivesWithin: () => {},
    get: (_: unknown, read: (from: typeof body) => Promise<void>) => read(body),
  };
  const order: string[] = [];
  const take = () => {
    if (order.length === 0) setImmediate(() => order.push("other work"));
    order.push("event");
    for (const since = performance.now(); performance.now() - since <= TURN; );
  };
  await watchEvents(
    request as unknown as TimedRequest,
    resources("node-1").services,
    "1",
    { seconds: 60, onOpen: () => {} },
    take,
  );
  expect(order).toEqual(["event", "other work", "event", "event", "event"]);
});
