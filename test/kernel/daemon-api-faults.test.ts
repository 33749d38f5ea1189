import { writeFile } from "node:fs/promises";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { apiService, apiSlice } from "../support/api-objects.ts";
import { DaemonLab } from "../support/daemon-lab.ts";
import type { RunningDaemon } from "../support/running-daemon.ts";
import type { InjectedFault, Verb } from "../support/stub-api/faults.ts";
import type { OpenWatch } from "../support/stub-api/open-watch.ts";
import { townList } from "../support/stub-api/town.ts";

let lab: DaemonLab;
let daemon: RunningDaemon | undefined;
beforeAll(async () => {
  lab = await DaemonLab.create();
});
afterAll(() => lab?.close());

beforeEach(async () => {
  await lab.startApi();
  for (const resource of ["nodes", "servicecidrs"] as const)
    lab.cluster.load(resource, townList("town", resource));
  for (const [index, name] of ["a", "b", "c"].entries()) {
    lab.cluster.put("services", apiService(name, { clusterIP: `10.96.7.${index}` }));
    lab.cluster.put("endpointslices", apiSlice(name, ["10.244.1.11", "10.244.2.12"]));
  }
});
afterEach(async () => {
  await daemon?.stop();
  expect(daemon?.otherLines).toEqual([]);
  expect(JSON.stringify(daemon?.log)).not.toMatch(/\\n\s+at /);
});

const AWAY = "cannot follow the API server; the last known objects stay in use";

const status = (code: number, retryAfter?: string): InjectedFault => {
  return { kind: "status", status: code, ...(retryAfter === undefined ? {} : { retryAfter }) };
};

function find(name: string) {
  const found = lab.cluster.objects("services").find(({ metadata }) => metadata.name === name);
  if (found === undefined) throw new Error(`no Service ${name}`);
  return found;
}

/**
 * Makes changes that a client without a watch must not miss: adds, removes, changes and recreates an object.
 */
function change(): void {
  lab.cluster.put("services", apiService("d", { clusterIP: "10.96.7.13" }));
  lab.cluster.remove("services", find("a"));
  lab.cluster.remove("services", find("b"));
  lab.cluster.put("services", apiService("b", { clusterIP: "10.96.7.11" }));
  lab.cluster.put("endpointslices", apiSlice("c", ["10.244.1.13"]));
}

const forAll = (act: (watch: OpenWatch) => void) => () => {
  for (const watch of [...lab.cluster.watches("services"), ...lab.cluster.watches("endpointslices")])
    act(watch);
};
/** Makes changes that the watch does not send, then acts. The client must get them after that. */
const missing = (act: () => void) => () => {
  forAll((watch) => watch.mute())();
  change();
  forAll((watch) => watch.unmute())();
  act();
};
const forget = () => {
  lab.cluster.compact("services");
  lab.cluster.compact("endpointslices");
};

/** A fault of the first requests, and a fault of the later watches. */
interface Row {
  readonly first: readonly [name: string, verb: Verb, fault: InjectedFault];
  readonly next: readonly [name: string, act: () => void];
}

const rows: readonly Row[] = [
  { first: ["500", "list", status(500)], next: ["a reset", missing(forAll((watch) => watch.reset()))] },
  {
    first: ["429 with Retry-After", "list", status(429, "1")],
    next: ["a close", missing(forAll((watch) => watch.end()))],
  },
  {
    first: ["410", "list", status(410)],
    next: [
      "an ERROR event 410",
      missing(forAll((watch) => watch.send({ type: "ERROR", object: { code: 410 } }))),
    ],
  },
  {
    first: ["504", "list", status(504)],
    next: [
      "half a line",
      missing(
        forAll((watch) => {
          watch.sendRaw('{"type":"ADDED","object":{"metadata":{"na');
          watch.end();
        }),
      ),
    ],
  },
  {
    first: ["a reset", "list", { kind: "reset" }],
    next: ["a malformed line", missing(forAll((watch) => watch.sendRaw("{'type'}\n")))],
  },
  {
    first: ["a reset in the body", "list", { kind: "cut", body: '{"kind":"List","items":[' }],
    next: [
      "a repeated object",
      () => {
        change();
        forAll((watch) => watch.send({ type: "ADDED", object: find("d") }))();
      },
    ],
  },
  {
    first: ["half a body", "list", { kind: "body", body: '{"kind":"List","items":[' }],
    next: [
      "a deletion without an event",
      () => {
        lab.cluster.removeSilently("services", find("c"));
        forget();
        forAll((watch) => watch.reset())();
      },
    ],
  },
  {
    first: ["an HTML page", "list", { kind: "body", body: "<html>welcome</html>" }],
    next: [
      "an expired history",
      missing(() => {
        forget();
        forAll((watch) => watch.reset())();
      }),
    ],
  },
  {
    first: ["410", "watch", status(410)],
    next: [
      "an ERROR event 500",
      missing(forAll((watch) => watch.send({ type: "ERROR", object: { code: 500 } }))),
    ],
  },
  {
    first: ["403", "watch", status(403)],
    next: ["silence that ends", missing(forAll((watch) => watch.end()))],
  },
];

describe("an API server", () => {
  test.each(rows.map((row) => [row.first[0], row.first[1], row.next[0], row] as const))(
    "that answers with %s on %s, and then with %s, still leads to the right rules in the end",
    async (_name, verb, _then, { first, next }) => {
      lab.api.addFault({ resource: "services", verb, fault: first[2] });
      lab.api.addFault({ resource: "endpointslices", verb, fault: first[2] });
      daemon = lab.start();
      await lab.converged();
      await lab.watched();
      next[1]();
      await lab.converged();
    },
  );

  test("that rejects the token is followed again with a new token", async () => {
    lab.api.tokens.add("old");
    const tokenFile = await lab.file("token", "old");
    const kubeconfig = await lab.file(
      "kubeconfig",
      JSON.stringify({
        clusters: [{ name: "stub", cluster: { server: lab.master } }],
        users: [{ name: "proxy", user: { tokenFile } }],
        contexts: [{ name: "it", context: { cluster: "stub", user: "proxy" } }],
        "current-context": "it",
      }),
    );
    daemon = lab.start([], [`--kubeconfig=${kubeconfig}`]);
    await lab.converged();
    await lab.watched();
    lab.api.tokens.clear();
    lab.api.tokens.add("new");
    forAll((watch) => watch.reset())();
    change();
    await daemon.saying(AWAY);
    await writeFile(tokenFile, "new");
    await lab.converged();
  });

  test("that goes away leaves the rules unchanged, and is followed again after its return", async () => {
    daemon = lab.start();
    await lab.converged();
    const before = await lab.kernelText();
    const { cluster } = lab;
    await lab.stopApi();
    await daemon.saying(AWAY);
    expect(await lab.kernelText()).toBe(before);
    await lab.startApi(cluster);
    change();
    await lab.converged();
  });

  test("that is away at the start leaves an earlier run's rules in place until everything is listed", async () => {
    daemon = lab.start();
    await lab.converged();
    await daemon.stop();
    const before = await lab.kernelText();
    const { cluster } = lab;
    await lab.stopApi();
    daemon = lab.start();
    await daemon.saying("cannot follow the API server; none are known yet");
    expect(await lab.kernelText()).toBe(before);
    await lab.startApi(cluster);
    await lab.watched();
    expect(await daemon.saying("full sync")).toMatchObject({ reason: "start", sent: 0 });
    expect(await lab.kernelText()).toBe(before);
  });
});
