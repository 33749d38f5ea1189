import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { resources } from "../../../../src/kube/reflector/resources.ts";
import { RESOURCE_NAMES } from "../../../../src/kube/source.ts";
import { Follower, type FollowerOptions, keep, tinyService } from "../../../support/follower.ts";
import { isSelected, keyOf, type StubObject } from "../../../support/stub-api/selectors.ts";
import { StubApi } from "../../../support/stub-api/stub-api.ts";
import { loadTown, replayTown, townList } from "../../../support/stub-api/town.ts";

let api: StubApi;
let followers: Follower[];

beforeEach(async () => {
  api = await StubApi.start();
  followers = [];
});

afterEach(async () => {
  for (const follower of followers) follower.stop();
  await api.close();
  expect(followers.flatMap(({ violations }) => violations)).toEqual([]);
});

async function follow(options: FollowerOptions = {}): Promise<Follower> {
  const follower = new Follower(api, options).start();
  followers.push(follower);
  await follower.untilEqual();
  return follower;
}

/** kube-proxy's selectors of Services. */
const SERVICE_SELECTORS = {
  labelSelector: "!service.kubernetes.io/service-proxy-name",
  fieldSelector: "spec.clusterIP!=None",
};

describe("a reflector's requests", () => {
  test("list the newest state in one request and watch from there, over one connection", async () => {
    for (let n = 0; n < 1201; n += 1) api.cluster.put("services", tinyService(`s-${n}`));
    const follower = await follow();
    expect(api.requests.map(({ verb }) => verb)).toEqual(["list", "watch"]);
    expect(api.requests[0]?.query).toEqual(SERVICE_SELECTORS);
    expect(api.requests[1]?.query).toEqual({
      watch: "1",
      allowWatchBookmarks: "true",
      ...SERVICE_SELECTORS,
      resourceVersion: String(api.cluster.version),
      timeoutSeconds: "450",
    });
    expect(api.requests[0]?.headers).toMatchObject({
      "user-agent": "nft-proxy/test",
      accept: "application/json",
    });
    expect(api.connections).toBe(1);
    expect(follower.reflector.state()).toMatchObject({
      synced: true,
      objects: 1201,
      relists: 0,
      failure: "",
    });
  });

  test.each([
    [30, "0"],
    [31, undefined],
    [36, undefined],
  ])("list what comes from the cache of a server of Kubernetes 1.%i", async (minor, resourceVersion) => {
    api.minorVersion = minor;
    await follow();
    expect(api.requests[0]?.query.resourceVersion).toBe(resourceVersion);
  });

  test("list the newest state of a server that does not tell its version", async () => {
    api.minorVersion = Number.NaN;
    await follow();
    expect(api.requests[0]?.query).toEqual(SERVICE_SELECTORS);
  });

  test("list a state not older than the known one when a watch cannot go on, and any when there is none", async () => {
    const follower = await follow();
    const version = String(api.cluster.version);
    api.cluster.compact("services");
    api.addFault({ verb: "list", fault: { kind: "status", status: 504 } });
    api.cluster.watches("services")[0]?.end();
    await follower.until(() => follower.reflector.state().relists === 1);
    const lists = api.requests.filter(({ verb }) => verb === "list").map(({ query }) => query);
    expect(lists.slice(1)).toEqual([
      { ...SERVICE_SELECTORS, resourceVersion: version, resourceVersionMatch: "NotOlderThan" },
      SERVICE_SELECTORS,
    ]);
  });

  test("go without the field selector of Services where the server rejects it, as before Kubernetes 1.31", async () => {
    api.cluster.put("services", tinyService("s"));
    api.addFault({ fault: { kind: "status", status: 400 } });
    const follower = await follow();
    expect(api.requests.map(({ verb, query }) => [verb, query.fieldSelector])).toEqual([
      ["list", SERVICE_SELECTORS.fieldSelector],
      ["list", undefined],
      ["watch", undefined],
    ]);
    for (const { query } of api.requests) expect(query.labelSelector).toBe(SERVICE_SELECTORS.labelSelector);
    expect(follower.reflector.state()).toMatchObject({ synced: true, objects: 1, failure: "" });
    expect(follower.clock.waits).toEqual([]);
  });

  test("are repeated for a Node where the server rejects them", async () => {
    api.cluster.put("nodes", { metadata: { name: "node-1" } });
    api.addFault({ fault: { kind: "status", status: 400 } });
    const follower = await follow({ resource: "nodes" });
    expect(api.requests.map(({ query }) => query.fieldSelector)).toEqual(
      Array(3).fill("metadata.name=node-1"),
    );
    expect(follower.reflector.state()).toMatchObject({ synced: true, objects: 1 });
  });

  test("ask for this host's Node alone", async () => {
    api.cluster.put("nodes", { metadata: { name: "node-1" } });
    api.cluster.put("nodes", { metadata: { name: "node-2" } });
    const follower = await follow({ resource: "nodes" });
    expect([...follower.objects.keys()]).toEqual(["node-1"]);
    expect(api.requests.map(({ query }) => query.fieldSelector)).toEqual([
      "metadata.name=node-1",
      "metadata.name=node-1",
    ]);
  });

  test("select EndpointSlices by the label of headless Services alone", async () => {
    await follow({ resource: "endpointslices" });
    for (const { query } of api.requests) {
      expect(query.labelSelector).toBe("!service.kubernetes.io/headless");
      expect(query).not.toHaveProperty("fieldSelector");
    }
  });

  test("select a Service with a cluster IP and the label headless, and none without a cluster IP", async () => {
    const labels = { "service.kubernetes.io/headless": "" };
    api.cluster.put("services", { ...tinyService("served", labels), spec: { clusterIP: "10.96.0.1" } });
    api.cluster.put("services", { ...tinyService("headless"), spec: { clusterIP: "None" } });
    expect([...(await follow()).objects.keys()]).toEqual(["shop/served"]);
  });

  test("watch again from the last bookmark, at once, after a watch that the server ended in time", async () => {
    api.cluster.put("services", tinyService("a"));
    const follower = await follow();
    api.cluster.bookmark("services");
    const version = api.cluster.version;
    await follower.until(() => follower.reflector.state().events.bookmark === 1);
    follower.clock.advance(70_000);
    api.cluster.watches("services")[0]?.end();
    await follower.until(() => api.requests.length === 3);
    expect(api.requests[2]).toMatchObject({ verb: "watch", query: { resourceVersion: String(version) } });
    expect(follower.clock.waits).toEqual([]);
  });
});

describe("a reflector's events", () => {
  test("report additions, changes and deletions", async () => {
    const follower = await follow();
    const a = api.cluster.put("services", tinyService("a"));
    api.cluster.put("services", tinyService("a", { changed: "yes" }));
    api.cluster.remove("services", a);
    await follower.until(() => follower.calls.length === 4);
    expect(follower.calls).toEqual(["synced", "+shop/a", "~shop/a", "-shop/a"]);
    expect(follower.reflector.state().events).toEqual({ added: 1, modified: 1, deleted: 1, bookmark: 0 });
  });

  test("are read where characters and lines lie across chunks", async () => {
    const follower = await follow();
    const bytes = Buffer.from(
      ["ä", "ö"]
        .map((name) => `${JSON.stringify({ type: "ADDED", object: { metadata: { name } } })}\n`)
        .join(""),
    );
    for (const byte of bytes) {
      api.cluster.watches("services")[0]?.sendRaw(Uint8Array.of(byte));
      await new Promise((resolve) => setImmediate(resolve));
    }
    await follower.until(() => follower.calls.length === 3);
    expect(follower.calls).toEqual(["synced", "+ä", "+ö"]);
  });

  test("add what comes into the selection, and delete what leaves it", async () => {
    const proxied = { "service.kubernetes.io/service-proxy-name": "other" };
    api.cluster.put("services", tinyService("theirs", proxied));
    const follower = await follow();
    api.cluster.put("services", tinyService("theirs"));
    api.cluster.put("services", tinyService("theirs", proxied));
    await follower.until(() => follower.calls.length === 3);
    expect(follower.calls).toEqual(["synced", "+shop/theirs", "-shop/theirs"]);
  });

  test("are one for an object that is sent twice", async () => {
    const follower = await follow();
    const object = api.cluster.put("services", tinyService("a"));
    api.cluster.watches("services")[0]?.send({ type: "ADDED", object });
    api.cluster.watches("services")[0]?.send({ type: "MODIFIED", object });
    api.cluster.put("services", tinyService("b"));
    await follower.untilEqual();
    expect(follower.calls).toEqual(["synced", "+shop/a", "+shop/b"]);
  });

  test("are none for a change that the transform ignores", async () => {
    const follower = await follow({ transform: (object) => ({ ...keep(object), version: "" }) });
    api.cluster.put("services", tinyService("a"));
    api.cluster.put("services", tinyService("a", { changed: "yes" }));
    api.cluster.put("services", tinyService("b"));
    await follower.until(() => follower.calls.includes("+shop/b"));
    expect(follower.calls).toEqual(["synced", "+shop/a", "+shop/b"]);
  });

  test("are a deletion and an addition for an object made again under its name", async () => {
    const old = api.cluster.put("services", tinyService("a"));
    const follower = await follow();
    api.cluster.removeSilently("services", old);
    const fresh = api.cluster.put("services", tinyService("a"));
    expect(fresh.metadata.uid).not.toBe(old.metadata.uid);
    await follower.untilEqual();
    expect(follower.calls).toEqual(["+shop/a", "synced", "-shop/a", "+shop/a"]);
  });

  test("of the recorded streams change the town into the town after", async () => {
    loadTown(api.cluster);
    const all = await Promise.all(RESOURCE_NAMES.map((resource) => follow({ resource })));
    replayTown(api.cluster);
    for (const follower of all) await follower.untilEqual();
    for (const [index, resource] of RESOURCE_NAMES.entries()) {
      const after: StubObject[] = townList("town-after", resource).items;
      const { selectors } = resources("node-1")[resource];
      const kept = after.filter((object) =>
        isSelected(object, { labelSelector: "", fieldSelector: "", ...selectors }),
      );
      const sorted = kept.map((object) => [keyOf(object), keep(object)]).sort();
      expect([...(all[index]?.objects ?? [])].sort(), resource).toEqual(sorted);
      expect(all[index]?.calls.filter((call) => call === "synced")).toHaveLength(1);
    }
  });
});

describe("a reflector", () => {
  const transform = (object: StubObject) => {
    if (object.metadata.labels?.bad !== undefined) throw new Error("bad label");
    return keep(object);
  };

  test("counts an object that it cannot use as absent, reports it once, and adds it when it is corrected", async () => {
    api.cluster.put("services", tinyService("a", { bad: "yes" }));
    api.cluster.put("services", tinyService("b"));
    const follower = new Follower(api, { transform }).start();
    followers.push(follower);
    await follower.until(() => api.cluster.watches("services").length === 1);
    expect(follower.calls).toEqual(["!shop/a", "+shop/b", "synced"]);

    api.cluster.compact("services");
    api.cluster.watches("services")[0]?.end();
    await follower.until(() => follower.reflector.state().relists === 1);
    expect(follower.calls.slice(3), "nothing new after a relist").toEqual(["synced"]);

    await follower.until(() => api.cluster.watches("services").length === 1);
    api.cluster.put("services", tinyService("a"));
    api.cluster.put("services", tinyService("b", { bad: "yes" }));
    await follower.until(() => follower.calls.length === 7);
    expect(follower.calls.slice(4)).toEqual(["+shop/a", "!shop/b", "-shop/b"]);
    expect(follower.reflector.state()).toMatchObject({ objects: 1, errors: { "invalid-object": 2 } });
    const warnings = follower.logger.lines.filter(({ message }) => message.includes("an object"));
    expect(warnings, "whoever takes the objects logs them").toEqual([]);
  });

  test("continues when its consumer throws, and loses only that call", async () => {
    api.cluster.put("services", tinyService("a"));
    const follower = await follow({
      onCall: (call) => {
        if (call === "+shop/b") throw new Error("consumer's fault");
      },
    });
    api.cluster.put("services", tinyService("b"));
    api.cluster.put("services", tinyService("c"));
    await follower.untilEqual();
    expect(api.requests).toHaveLength(2);
    expect(follower.reflector.state().errors.handler).toBe(1);
  });
});

describe("a reflector of an API that is not served", () => {
  test("is synced with nothing after a 404, and asks again ten minutes later", async () => {
    api.cluster.absent.add("servicecidrs");
    const follower = new Follower(api, { resource: "servicecidrs" }).start();
    followers.push(follower);
    await follower.until(() => follower.calls.length === 1);
    expect(follower.calls).toEqual(["synced"]);
    expect(follower.reflector.state()).toMatchObject({ synced: true, absent: true, failure: "" });
    expect(api.requests).toHaveLength(1);

    api.cluster.absent.clear();
    api.cluster.put("servicecidrs", { metadata: { name: "kubernetes" } });
    follower.clock.advance(600_000);
    await follower.untilEqual();
    expect(follower.reflector.state()).toMatchObject({ absent: false, objects: 1 });
  });

  test("is synced with nothing after a 403 at first, and keeps its objects after a later one", async () => {
    api.cluster.put("servicecidrs", { metadata: { name: "kubernetes" } });
    const forbidden = { kind: "status", status: 403 } as const;
    api.addFault({ fault: forbidden, times: 3 });
    const follower = await follow({ resource: "servicecidrs" });
    expect(follower.calls).toEqual(["synced", "+kubernetes", "synced"]);
    expect(follower.reflector.state()).toMatchObject({ absent: false, errors: { forbidden: 3 } });
    const said = follower.logger.lines.map(({ message }) => message);
    expect(said).toContain("not allowed to these credentials; continuing without it");

    api.addFault({ fault: forbidden, times: 3 });
    api.cluster.compact("servicecidrs");
    api.cluster.watches("servicecidrs")[0]?.reset();
    await follower.until(() => follower.reflector.state().errors.forbidden === 6);
    expect(follower.objects.size).toBe(1);
    await follower.untilEqual();
  });

  test("treats a 404 for Services like any other failure", async () => {
    api.cluster.put("services", tinyService("a"));
    api.addFault({ fault: { kind: "status", status: 404 }, times: 3 });
    const follower = await follow();
    expect(follower.calls).toEqual(["+shop/a", "synced"]);
  });
});

describe("stop() of a reflector", () => {
  test("ends an open watch without a report", async () => {
    const follower = await follow();
    const [watch] = api.cluster.watches("services");
    api.cluster.put("services", tinyService("a"));
    follower.reflector.stop();
    watch?.send({ type: "ADDED", object: tinyService("b") });
    await follower.until(() => api.cluster.watches("services").length === 0);
    expect(follower.calls).toEqual(["synced"]);
    expect(follower.clock.timers).toBe(0);
    expect(api.requests).toHaveLength(2);
    expect(follower.logger.lines.filter(({ level }) => level !== "debug")).toEqual([]);
  });

  test("takes effect between two objects of a list", async () => {
    for (const name of ["a", "b", "c"]) api.cluster.put("services", tinyService(name));
    const follower = new Follower(api, { onCall: () => follower.reflector.stop() }).start();
    followers.push(follower);
    await follower.until(() => follower.calls.length > 0 && follower.clock.timers === 0);
    expect(follower.calls).toEqual(["+shop/a"]);
    expect(api.requests).toHaveLength(1);
  });

  test("ends a wait for the next request", async () => {
    api.cluster.absent.add("servicecidrs");
    const follower = new Follower(api, { resource: "servicecidrs" }).start();
    await follower.until(() => follower.calls.length === 1 && follower.clock.timers === 1);
    follower.stop();
    expect(follower.clock.timers).toBe(0);
  });
});
