import { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import type { ApiClient } from "../../../../src/kube/client/client.ts";
import { TimedRequest } from "../../../../src/kube/client/timed-request.ts";
import { ManualClock } from "../../../support/manual-clock.ts";

/** A request of at most 60 s without data, to a server that answers with a byte each 40 s. */
function dripping(status: number, bytes: number) {
  const clock = new ManualClock();
  const client: Pick<ApiClient, "request"> = {
    request: async ({ signal }) => ({ status, headers: {}, body: body(signal) }),
  };
  async function* body(signal: AbortSignal | undefined): AsyncGenerator<Uint8Array> {
    for (let n = 0; n < bytes; n++) {
      clock.advance(40_000);
      signal?.throwIfAborted();
      yield Buffer.from("x");
    }
  }
  return { clock, request: new TimedRequest(client, clock, 60_000) };
}

const PATH = { path: "/api/v1/services" };

test("the answer may take any time while data is received", async () => {
  expect(await dripping(200, 5).request.get(PATH, 300_000, text)).toBe("xxxxx");
});

test("a character that comes in two pieces is read whole", async () => {
  const [first, second] = [Buffer.from("é").subarray(0, 1), Buffer.from("é").subarray(1)];
  const client = {
    request: async () => ({ status: 200, headers: {}, body: Readable.from([first, second]) }),
  };
  const request = new TimedRequest(client, new ManualClock(), 60_000);
  expect(await request.get(PATH, 300_000, text)).toBe("é");
});

test("all of an error must be received within the time without data", async () => {
  await expect(dripping(503, 1).request.get(PATH, 300_000, text)).rejects.toThrow("HTTP 503: x");
  await expect(dripping(503, 5).request.get(PATH, 300_000, text)).rejects.toThrow(
    "nothing received for 60000 ms",
  );
});

test("the whole answer must be received within its time, although data is received", async () => {
  const { clock, request } = dripping(200, 5);
  await expect(request.get(PATH, 100_000, text)).rejects.toThrow("not finished after 100000 ms");
  expect(clock.timers).toBe(0);
});
