import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { SourceErrorKind } from "../../../../src/kube/source.ts";
import { Follower, type FollowerOptions, tinyService } from "../../../support/follower.ts";
import type { InjectedFault, Verb } from "../../../support/stub-api/faults.ts";
import type { OpenWatch } from "../../../support/stub-api/open-watch.ts";
import { StubApi } from "../../../support/stub-api/stub-api.ts";

const OUTAGE = 1_200_000;
/** Back-off reaches 30 s, 15 s on average, and a round takes at most a list of two pages and a watch. */
const REQUESTS_IN_OUTAGE = 3 * (OUTAGE / 15_000 + 10);

// Hundreds of real requests in some tests, on whatever machine this runs.
vi.setConfig({ testTimeout: 60_000 });

let api: StubApi;
let follower: Follower;

beforeEach(async () => {
  api = await StubApi.start();
  fill(5);
  follower = new Follower(api);
});

afterEach(async () => {
  follower.stop();
  await api.close();
  expect(follower.violations).toEqual([]);
});

const status = (code: number, retryAfter?: string): InjectedFault => ({
  kind: "status",
  status: code,
  ...(retryAfter === undefined ? {} : { retryAfter }),
});

function fill(count: number): void {
  for (let n = 0; n < count; n += 1) api.cluster.put("services", tinyService(`s-${n}`));
}

function errors(): Partial<Record<SourceErrorKind, number>> {
  return Object.fromEntries(
    Object.entries(follower.reflector.state().errors).filter(([, count]) => count > 0),
  );
}

/**
 * Changes that a client which lost its watch must not miss: one more, one less, one changed, one made again.
 */
function change(): void {
  const [first, second, third] = api.cluster.objects("services");
  if (first === undefined || second === undefined || third === undefined) throw new Error("too few Services");
  api.cluster.put("services", tinyService("more"));
  api.cluster.remove("services", first);
  api.cluster.put("services", { ...second, spec: { changed: true } });
  api.cluster.remove("services", third);
  api.cluster.put("services", tinyService(third.metadata.name));
}

describe("faults of a request, three times over", () => {
  const rows: [name: string, verb: Verb, fault: InjectedFault, kind: SourceErrorKind][] = [
    ["500", "list", status(500), "server"],
    ["429", "list", status(429, "1"), "throttled"],
    ["401", "list", status(401), "unauthorized"],
    ["403", "list", status(403), "forbidden"],
    ["404", "list", status(404), "server"],
    ["410", "list", status(410), "gone"],
    ["a reset", "list", { kind: "reset" }, "connection"],
    ["a reset inside the body", "list", { kind: "cut", body: '{"kind":"List","items":[' }, "connection"],
    ["half a body", "list", { kind: "body", body: '{"kind":"List","items":[' }, "parse"],
    ["a page of somebody else's", "list", { kind: "body", body: "<html>welcome</html>" }, "parse"],
    ["JSON that is no list", "list", { kind: "body", body: '{"items":[]}' }, "parse"],
    ["an empty answer", "list", { kind: "body", body: "" }, "parse"],
    ["500", "watch", status(500), "server"],
    ["503 with Retry-After", "watch", status(503, "2"), "server"],
    ["429", "watch", status(429, "1"), "throttled"],
    ["401", "watch", status(401), "unauthorized"],
    ["403", "watch", status(403), "forbidden"],
    ["400", "watch", status(400), "server"],
    ["404", "watch", status(404), "server"],
    ["410", "watch", status(410), "gone"],
    ["a reset", "watch", { kind: "reset" }, "connection"],
    ["a clean close at once", "watch", { kind: "body", body: "" }, "short-watch"],
    ["half a line", "watch", { kind: "body", body: '{"type":"ADDED","obj' }, "parse"],
    ["half a line and a reset", "watch", { kind: "cut", body: '{"type":"ADDED","obj' }, "connection"],
    ["a malformed line", "watch", { kind: "body", body: '{"type":"ADDED","object":}\n' }, "parse"],
    ["a line that is no event", "watch", { kind: "body", body: '{"kind":"ServiceList"}\n' }, "parse"],
    ["an event of no known type", "watch", { kind: "body", body: '{"type":"NEWS","object":{}}\n' }, "parse"],
  ];

  test.each(rows)("%s on %s is survived, and the next change is seen", async (_name, verb, fault, kind) => {
    api.addFault({ verb, fault, times: 3 });
    follower.start();
    await follower.untilEqual();
    expect(errors()).toEqual({ [kind]: 3 });
    expect(follower.clock.waits).toHaveLength(3);
    expect(api.requests.length).toBeLessThanOrEqual(3 * 3 + 3);

    change();
    await follower.untilEqual();
    expect(follower.reflector.state()).toMatchObject({ synced: true, failure: "" });
  });

  test.each(rows)("%s on %s for twenty minutes causes no hot loop", async (_name, verb, fault) => {
    api.addFault({ verb, fault, times: Number.POSITIVE_INFINITY });
    const began = follower.clock.now();
    follower.start();
    await follower.until(() => follower.clock.now() - began >= OUTAGE);
    expect(api.requests.length).toBeLessThanOrEqual(REQUESTS_IN_OUTAGE);
    expect(follower.logger.lines.filter(({ level }) => level === "warn").length).toBeLessThanOrEqual(90);

    api.clearFaults();
    change();
    await follower.untilEqual();
  });
});

describe("faults of an open watch", () => {
  const rows: [name: string, fault: (watch: OpenWatch) => void, relists: number][] = [
    ["a reset", (watch) => watch.reset(), 0],
    ["a clean close", (watch) => watch.end(), 0],
    [
      "half an event and a clean close",
      (watch) => {
        watch.sendRaw('{"type":"ADDED","object":{"metadata":{"name":"ha');
        watch.end();
      },
      1,
    ],
    ["a malformed line", (watch) => watch.sendRaw("{'type': 'ADDED'}\n"), 1],
    [
      "an ERROR event with 410",
      (watch) => watch.send({ type: "ERROR", object: { code: 410, reason: "Expired" } }),
      1,
    ],
    [
      "an ERROR event with 500",
      (watch) => watch.send({ type: "ERROR", object: { code: 500, message: "etcd" } }),
      1,
    ],
    [
      "an ERROR event with 429, which says nothing of the resourceVersion",
      (watch) => watch.send({ type: "ERROR", object: { code: 429, details: { retryAfterSeconds: 1 } } }),
      0,
    ],
    ["an ERROR event without a Status", (watch) => watch.send({ type: "ERROR", object: {} }), 1],
  ];

  test.each(rows)(
    "%s is followed by a watch or a list that misses nothing",
    async (_name, fault, relists) => {
      follower.start();
      await follower.untilEqual();
      const [watch] = api.cluster.watches("services");
      if (watch === undefined) throw new Error("no watch");
      watch.mute();
      change();
      watch.unmute();
      fault(watch);
      await follower.untilEqual();
      expect(follower.reflector.state()).toMatchObject({ relists, failure: "" });
      expect(api.requests.length).toBeLessThanOrEqual(6);
    },
  );

  test("after 75 seconds of silence a half-open connection is closed, and no change is missed", async () => {
    follower.start();
    await follower.untilEqual();
    api.cluster.watches("services")[0]?.mute();
    change();
    follower.clock.advance(74_999);
    expect(api.cluster.watches("services")).toHaveLength(1);
    follower.clock.advance(1);
    await follower.untilEqual();
    expect(errors()).toEqual({ timeout: 1 });
    expect(follower.reflector.state().relists).toBe(0);
  });

  test("a watch that the server does not end is closed half a minute after its time", async () => {
    follower.start();
    await follower.untilEqual();
    for (let minutes = 1; minutes <= 8; minutes += 1) {
      follower.clock.advance(59_999);
      api.cluster.bookmark("services");
      await follower.until(() => follower.reflector.state().events.bookmark === minutes);
    }
    expect(api.requests).toHaveLength(2);
    follower.clock.advance(500);
    await follower.until(() => api.requests.length === 3);
    expect(errors()).toEqual({ timeout: 1 });
    await follower.untilEqual();
  });

  test("an expired version is followed by a list, which finds deletions that no watch reported", async () => {
    follower.start();
    await follower.untilEqual();
    const [first] = api.cluster.objects("services");
    if (first !== undefined) api.cluster.removeSilently("services", first);
    change();
    api.cluster.compact("services");
    api.cluster.watches("services")[0]?.reset();
    await follower.until(() => follower.isEqual() && follower.reflector.state().relists === 1);
    expect(errors()).toEqual({ connection: 1, gone: 1 });
  });

  test("an object made again while nobody watched is reported as a deletion, then an addition", async () => {
    follower.start();
    await follower.untilEqual();
    const [first] = api.cluster.objects("services");
    if (first === undefined) throw new Error("no Service");
    api.cluster.watches("services")[0]?.mute();
    api.cluster.remove("services", first);
    api.cluster.put("services", tinyService(first.metadata.name));
    api.cluster.compact("services");
    const before = follower.calls.length;
    api.cluster.watches("services")[0]?.reset();
    await follower.untilEqual();
    const key = `shop/${first.metadata.name}`;
    expect(follower.calls.slice(before)).toEqual([`-${key}`, `+${key}`, "synced"]);
  });
});

describe("hung requests", () => {
  const rows: [name: string, verb: Verb, fault: InjectedFault][] = [
    ["a list without an answer", "list", { kind: "hang" }],
    ["a list whose body stops", "list", { kind: "stall", body: '{"items":[' }],
    ["a watch without an answer", "watch", { kind: "hang" }],
  ];

  test.each(rows)("%s is given up after a minute", async (_name, verb, fault) => {
    api.addFault({ verb, fault });
    follower.start();
    await follower.until(() => api.requests.at(-1)?.verb === verb);
    follower.clock.advance(60_000);
    await follower.untilEqual();
    expect(errors()).toEqual({ timeout: 1 });
  });
});

describe("outages", () => {
  test("waits grow while errors take long to arrive", async () => {
    let failures = 0;
    api.other = (_path, query) => {
      if (query.watch === undefined || failures === 4) return undefined;
      failures += 1;
      follower.clock.advance(6_000);
      return { status: 500, body: "{}" };
    };
    follower.start();
    await follower.untilEqual();
    expect(follower.clock.waits).toEqual([400, 800, 1600, 3200]);
  });

  test("a request that times out does not end the waits of other resources", async () => {
    const onAnswer = vi.spyOn(follower.availability, "answered");
    api.addFault({ verb: "list", fault: { kind: "hang" } });
    follower.start();
    await follower.until(() => api.requests.length === 1);
    follower.clock.advance(60_000);
    await follower.until(() => errors().timeout === 1);
    expect(onAnswer, "of /version").toHaveBeenCalledOnce();
    await follower.untilEqual();
    expect(onAnswer).toHaveBeenCalledTimes(3);
  });

  test("an error without a message of its own, as of a name with two addresses, is a failure with a reason", async () => {
    let isUnavailable = true;
    const refusals = ["::1", "127.0.0.1"].map((address) => new Error(`connect ECONNREFUSED ${address}:6443`));
    const token = () => {
      if (isUnavailable) throw new AggregateError(refusals);
      return "";
    };
    follower = new Follower(api, { token }).start();
    await follower.until(() => errors().connection === 1);
    expect(follower.reflector.state().failure).toBe(
      "connect ECONNREFUSED ::1:6443; connect ECONNREFUSED 127.0.0.1:6443",
    );
    isUnavailable = false;
    await follower.untilEqual();
  });

  test("Retry-After is honoured, with some spread", async () => {
    api.addFault({ fault: status(429, "20") });
    follower.start();
    await follower.untilEqual();
    expect(follower.clock.waits).toEqual([20_400]);
  });

  test("waits grow to 15 s on average, and begin anew after a good watch", async () => {
    api.addFault({ fault: status(500), times: 8 });
    follower.start();
    await follower.untilEqual();
    expect(follower.clock.waits).toEqual([400, 800, 1600, 3200, 6400, 12_800, 15_000, 15_000]);
    follower.clock.advance(10_000);
    api.cluster.watches("services")[0]?.reset();
    await follower.until(() => api.cluster.watches("services").length === 0);
    await follower.untilEqual();
    expect(follower.clock.waits.slice(8)).toEqual([400]);
  });

  test("a server that goes away for twenty minutes and comes back is followed again, with one warning for each reason", async () => {
    follower.start();
    await follower.untilEqual();
    const { port, cluster } = api;
    await api.close();
    change();
    const began = follower.clock.now();
    await follower.until(() => follower.clock.now() - began >= OUTAGE);
    expect(follower.objects.size, "what is known stays").toBe(5);
    expect(follower.reflector.state().failure).toContain("ECONNREFUSED");
    expect(follower.logger.lines.filter(({ level }) => level === "warn").length).toBeLessThanOrEqual(3);

    api = await StubApi.start({ port, cluster });
    await follower.untilEqual();
    expect(follower.logger.lines.at(-1)?.message).toBe("following the API server again");
  });

  test("versions that have expired meanwhile are no new warning, and the end is logged once they are listed", async () => {
    follower.start();
    await follower.untilEqual();
    const { port, cluster } = api;
    await api.close();
    await follower.until(() => follower.reflector.state().failure.includes("ECONNREFUSED"));
    const lines = follower.logger.lines.length;
    change();
    cluster.compact("services");
    api = await StubApi.start({ port, cluster });
    await follower.untilEqual();
    expect(errors().gone).toBe(1);
    const after = follower.logger.lines.slice(lines).filter(({ level }) => level !== "debug");
    expect(after.map(({ message }) => message)).toEqual(["following the API server again"]);
  });

  test("a new token is used after the old one was refused", async () => {
    follower.stop();
    let token = "old";
    api.tokens.add("old");
    follower = new Follower(api, { token: () => token }).start();
    await follower.untilEqual();
    api.tokens.clear();
    api.tokens.add("new");
    api.cluster.watches("services")[0]?.reset();
    change();
    await follower.until(() => (follower.reflector.state().errors.unauthorized ?? 0) >= 2);
    token = "new";
    await follower.untilEqual();
    expect(follower.reflector.state()).toMatchObject({ relists: 0, failure: "" });
  });
});

describe("a list without any of the known objects, not even default/kubernetes", () => {
  const empty: InjectedFault = {
    kind: "body",
    body: '{"kind":"ServiceList","apiVersion":"v1","metadata":{"resourceVersion":"900"},"items":[]}',
  };

  const FIRST_EMPTY =
    "the first list is empty, although an earlier process left rules; it is accepted if it is repeated for a minute";

  async function followKubernetes(options: FollowerOptions = {}): Promise<void> {
    api.cluster.put("services", { metadata: { namespace: "default", name: "kubernetes" }, spec: {} });
    follower = new Follower(api, options).start();
    await follower.untilEqual();
    api.cluster.compact("services");
  }

  test("changes nothing, is reported once, and is forgotten with a plausible list", async () => {
    await followKubernetes();
    api.addFault({ verb: "list", fault: empty, times: 3 });
    api.cluster.watches("services")[0]?.end();
    await follower.until(() => errors().implausible === 3);
    expect(follower.objects.size).toBe(6);
    expect(follower.implausible).toEqual(["services"]);
    await follower.untilEqual();
    expect(follower.calls.filter((call) => call.startsWith("-"))).toEqual([]);
    const warnings = follower.logger.lines.filter(({ fields }) => fields.kind === "implausible");
    expect(warnings.map(({ level }) => level)).toEqual(["warn", "debug", "debug"]);
  });

  test("is accepted when it has been repeated for a minute", async () => {
    await followKubernetes();
    const began = follower.clock.now();
    api.addFault({ verb: "list", fault: empty, times: Number.POSITIVE_INFINITY });
    api.cluster.watches("services")[0]?.end();
    await follower.until(() => follower.objects.size === 0);
    expect(follower.clock.now() - began).toBeGreaterThanOrEqual(60_000);
  });

  test.each([
    ["for a minute where rules are in force", true, 60_000, FIRST_EMPTY],
    ["not at all where there are none", false, 0, undefined],
  ])("is doubted %s if it is the first", async (_where, hasRules, atLeast, reason) => {
    follower = new Follower(api, { hasRules });
    api.addFault({ verb: "list", fault: empty, times: Number.POSITIVE_INFINITY });
    const began = follower.clock.now();
    follower.start();
    await follower.until(() => follower.calls.includes("synced"));
    expect(follower.clock.now() - began).toBeGreaterThanOrEqual(atLeast);
    expect(follower.implausible).toEqual(hasRules ? ["services"] : []);
    expect(follower.logger.lines[0]?.fields.reason).toBe(reason);
  });

  test("is an error if it is of another kind", async () => {
    const body = '{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"900"},"items":[]}';
    api.addFault({ verb: "list", fault: { kind: "body", body } });
    follower.start();
    await follower.untilEqual();
    expect(errors()).toEqual({ parse: 1 });
    expect(follower.logger.lines[0]?.fields.reason).toBe("the answer is not a ServiceList");
  });
});
