import fc from "fast-check";
import { expect, test } from "vitest";
import { Follower, tinyService } from "../support/follower.ts";
import { runs } from "../support/property-runs.ts";
import type { InjectedFault, Verb } from "../support/stub-api/faults.ts";
import { keyOf } from "../support/stub-api/selectors.ts";
import { StubApi } from "../support/stub-api/stub-api.ts";

type Step = (api: StubApi, follower: Follower) => void;

const name = fc.integer({ min: 0, max: 5 }).map((n) => `s-${n}`);
const find = (api: StubApi, wanted: string) =>
  api.cluster.objects("services").find((object) => keyOf(object) === `shop/${wanted}`);

const changes: fc.Arbitrary<Step> = fc.oneof(
  name.map(
    (n): Step =>
      ({ cluster }) =>
        void cluster.put("services", tinyService(n)),
  ),
  name.map(
    (n): Step =>
      (api) => {
        const object = find(api, n);
        if (object !== undefined) api.cluster.remove("services", object);
      },
  ),
  name.map(
    (n): Step =>
      (api) => {
        const object = find(api, n);
        if (object !== undefined) api.cluster.removeSilently("services", object);
      },
  ),
  name.map(
    (n): Step =>
      (api) => {
        const object = find(api, n);
        if (object === undefined) return;
        api.cluster.remove("services", object);
        api.cluster.put("services", tinyService(n));
      },
  ),
  name.map(
    (n): Step =>
      (api) => {
        const object = find(api, n);
        if (object !== undefined) api.cluster.removeSilently("services", object);
        api.cluster.put("services", tinyService(n));
      },
  ),
);

const faults: fc.Arbitrary<InjectedFault> = fc.constantFrom<InjectedFault>(
  { kind: "status", status: 500 },
  { kind: "status", status: 429, retryAfter: "1" },
  { kind: "status", status: 410 },
  { kind: "status", status: 401 },
  { kind: "reset" },
  { kind: "cut", body: '{"items":[{"metadata":' },
  { kind: "body", body: "" },
  { kind: "body", body: '{"type":"ADDED","object":{"metad' },
);

const troubles: fc.Arbitrary<Step> = fc.oneof(
  fc
    .record({
      verb: fc.constantFrom<Verb>("list", "watch"),
      fault: faults,
      times: fc.integer({ min: 1, max: 4 }),
    })
    .map(
      (rule): Step =>
        (api) =>
          api.addFault(rule),
    ),
  fc.constantFrom<Step>(
    ({ cluster }) => cluster.compact("services"),
    ({ cluster }) => cluster.bookmark("services"),
    ({ cluster }) => cluster.watches("services")[0]?.reset(),
    ({ cluster }) => cluster.watches("services")[0]?.end(),
    ({ cluster }) => cluster.watches("services")[0]?.mute(),
    ({ cluster }) => cluster.watches("services")[0]?.sendRaw('{"type":"ADDED"}\n'),
    ({ cluster }) => cluster.watches("services")[0]?.send({ type: "ERROR", object: { code: 410 } }),
    (_api, { clock }) => clock.advance(90_000),
  ),
);

/** A step, and how many turns of the event loop pass after it. */
const history = fc.array(fc.tuple(fc.oneof(changes, troubles), fc.integer({ min: 0, max: 30 })), {
  maxLength: 30,
});

test("after any faults of the API server the consumer has its objects, and got no contradictory events", async () => {
  await fc.assert(
    fc.asyncProperty(history, async (steps) => {
      const api = await StubApi.start();
      const follower = new Follower(api).start();
      try {
        await follower.untilEqual();
        for (const [step, turns] of steps) {
          step(api, follower);
          for (let turn = 0; turn < turns; turn += 1) await new Promise((resolve) => setImmediate(resolve));
        }
        api.clearFaults();
        // Nobody can know of a silent deletion before there is a reason to list again.
        await follower.until(
          () => follower.reflector.state().synced && api.cluster.watches("services").length > 0,
        );
        api.cluster.compact("services");
        for (const watch of api.cluster.watches("services")) watch.reset();
        await follower.untilEqual();
        expect(follower.violations).toEqual([]);
      } finally {
        follower.stop();
        await api.close();
      }
    }),
    { numRuns: runs(100) },
  );
}, 120_000);
