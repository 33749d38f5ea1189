import { Readable } from "node:stream";
import { expect, test } from "vitest";
import { TURN } from "../../../../src/base/pieces.ts";
import type { TimedRequest } from "../../../../src/kube/client/timed-request.ts";
import { resources } from "../../../../src/kube/reflector/resources.ts";
import { linesOf, watchEvents } from "../../../../src/kube/reflector/watch.ts";

test("a watch whose events come faster than they are taken lets other work run between them", async () => {
  // Everything is there already, as after a read of 2 MB.
  const body = (async function* () {
    for (let left = 4; left > 0; left--) yield `${JSON.stringify({ type: "ADDED", object: {} })}\n`;
  })();
  const request = {
    receivesWithin: () => {},
    get: (_: unknown, _within: number, read: (from: typeof body) => Promise<void>) => read(body),
  };
  const order: string[] = [];
  const take = () => {
    if (order.length === 0) setImmediate(() => order.push("other work"));
    order.push("event");
    for (const since = performance.now(); performance.now() - since <= TURN; );
  };
  await watchEvents(request as unknown as TimedRequest, resources("node-1").services, "1", {
    seconds: 60,
    onOpen: () => {},
    take,
  });
  expect(order).toEqual(["event", "other work", "event", "event", "event"]);
});

/** The lines of a text that comes in some pieces. */
async function linesIn(...pieces: string[]): Promise<string[]> {
  const lines: string[][] = [];
  for await (const some of linesOf(Readable.from(pieces))) lines.push(some);
  return lines.flat();
}

test("the lines of a watch are read whole, wherever its text is divided", async () => {
  expect(await linesIn("a\nb", "", "c", "d\n\n \ne", "\n")).toEqual(["a", "bcd", "e"]);
  await expect(linesIn("a\n", "bc")).rejects.toThrow("ended within a line, after 2 characters of it");
});
