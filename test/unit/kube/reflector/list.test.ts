import { expect, test } from "vitest";
import type { ApiClient } from "../../../../src/kube/client/client.ts";
import { TimedRequest } from "../../../../src/kube/client/timed-request.ts";
import { listObjects } from "../../../../src/kube/reflector/list.ts";
import { ManualClock } from "../../../support/manual-clock.ts";

const HEAD =
  '{"kind": "ServiceList", "metadata": {"resourceVersion": "7"}, "items": [{"metadata": {"name": "a"}}';

/**
 * Lists from a server that sends the head of a list and then a byte each 59 s, and the end of it after some
 * of these.
 */
async function list(bytes: number) {
  const clock = new ManualClock();
  const taken: unknown[] = [];
  const client: Pick<ApiClient, "request"> = {
    request: async ({ signal }) => ({ status: 200, headers: {}, body: body(signal) }),
  };
  async function* body(signal: AbortSignal | undefined): AsyncGenerator<Uint8Array> {
    yield Buffer.from(HEAD);
    for (let n = 0; n < bytes; n++) {
      clock.advance(59_000);
      signal?.throwIfAborted();
      yield Buffer.from(" ");
    }
    yield Buffer.from("]}");
  }
  const request = new TimedRequest(client, clock, 60_000);
  const version = await listObjects({ path: "/api/v1/services", selectors: {} }, request, (one) =>
    taken.push(one),
  );
  return { version, taken, timers: clock.timers };
}

test("a list that takes some minutes is accepted", async () => {
  expect(await list(5)).toEqual({ version: "7", taken: [{ metadata: { name: "a" } }], timers: 0 });
});

test("a list that goes on for more than five minutes is given up, although its server is never silent", async () => {
  await expect(list(6)).rejects.toThrow("not finished after 300000 ms");
});
