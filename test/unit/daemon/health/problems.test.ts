import { expect, test } from "vitest";
import { type ProblemFacts, problemsOf } from "../../../../src/daemon/health/problems.ts";
import { INITIAL_STATE, type SourceState } from "../../../../src/kube/source.ts";
import type { ServicePortKey } from "../../../../src/model/ids.ts";
import { port, renderAll, service } from "../../../support/build.ts";

const NOW = Date.UTC(2026, 10, 20, 12);
const FOLLOWED: SourceState = { ...INITIAL_STATE, synced: true, lastEventAt: NOW - 90_000 };

function facts(changed: Partial<ProblemFacts> = {}): ProblemFacts {
  return {
    now: NOW,
    nodeName: "node-1",
    config: { problem: undefined, needRestart: [] },
    sources: { services: FOLLOWED, endpointslices: FOLLOWED, nodes: FOLLOWED, servicecidrs: FOLLOWED },
    remedy: (kind) => `remedy for ${kind}`,
    lastSynced: NOW - 3000,
    pendingSince: undefined,
    problem: "",
    quarantined: new Map(),
    lostFrontends: 0,
    firstConflict: () => undefined,
    nodeLacks: [],
    ejected: [],
    ...changed,
  };
}

function sources(services: Partial<SourceState>): Pick<ProblemFacts, "sources"> {
  return { sources: { ...facts().sources, services: { ...FOLLOWED, ...services } } };
}

/** Two Services that want the same external IP. */
function conflicting() {
  const claim = (name: string) =>
    service({ name, clusterIPs: [`10.96.9.${name.length}`], externalIPs: ["192.0.2.9"], ports: [port(80)] });
  const { state } = renderAll({ services: [claim("a"), claim("bb")] });
  return { lostFrontends: state.lostFrontends, firstConflict: () => state.conflicts(1)[0] };
}

const FORBIDDEN = { failure: "HTTP 403: no", failureKind: "forbidden" } as const;
const quarantined = new Map([
  ["ip shop/a:http/tcp", "too many endpoints"],
  ["ip shop/a:dns/udp", "too many endpoints"],
] as [ServicePortKey, string][]);

test("a daemon that does its work has no problem", () => {
  expect(problemsOf(facts())).toEqual([]);
  expect(problemsOf(facts({ lastSynced: undefined, pendingSince: NOW - 59_999 }))).toEqual([]);
  expect(problemsOf(facts({ pendingSince: NOW - 59_999 }))).toEqual([]);
  expect(problemsOf(facts(sources({ ...FORBIDDEN, lastEventAt: NOW - 59_999 })))).toEqual([]);
});

test.each<[string, Partial<ProblemFacts>, string, string | undefined]>([
  [
    "a resource that cannot be followed",
    sources(FORBIDDEN),
    "following warning: the daemon cannot follow services: HTTP 403: no; the last known objects stay in use, and changes are not programmed",
    "remedy for forbidden",
  ],
  [
    "a first list that fails",
    sources({ ...FORBIDDEN, synced: false, lastEventAt: 0 }),
    "following fault: the daemon cannot follow services: HTTP 403: no; without a complete first list, nothing is programmed",
    "remedy for forbidden",
  ],
  [
    "nothing programmed for a minute",
    { lastSynced: undefined, pendingSince: NOW - 76_000, problem: "waiting for services" },
    "programming fault: nothing has been programmed in the 76 s since the start: waiting for services; what changed since then is not in the kernel",
    "see its log; nft-proxy diff shows what the kernel lacks",
  ],
  [
    "a failed sync",
    { pendingSince: NOW - 1000, problem: "nft is busy" },
    "programming warning: the last sync failed: nft is busy; what changed since then is not in the kernel",
    "see its log; nft-proxy diff shows what the kernel lacks",
  ],
  [
    "rules that are out of date",
    { pendingSince: NOW - 60_000, problem: "nft is busy" },
    "programming fault: the rules have been out of date for 60 s: nft is busy; what changed since then is not in the kernel",
    "see its log; nft-proxy diff shows what the kernel lacks",
  ],
  [
    "a configuration that cannot be used",
    { config: { problem: "config.yaml: not YAML", needRestart: [] } },
    "configuration warning: the changed configuration cannot be used: config.yaml: not YAML; the daemon keeps the settings of before, and could not start with this configuration",
    "correct it (nft-proxy config --validate checks a file); it is read again when it changes",
  ],
  [
    "settings that wait for a restart",
    { config: { problem: undefined, needRestart: ["oomScoreAdj", "nftProxy.features"] } },
    "restart warning: changed settings wait for a restart of the daemon: oomScoreAdj and nftProxy.features; undefined",
    "restart it, or take the change back; the rules stay in force meanwhile",
  ],
  [
    "quarantined service ports",
    { quarantined },
    "quarantine fault: quarantined: ip shop/a:http/tcp and 1 other service port: too many endpoints; they have no rules, so that all others keep theirs",
    "nft-proxy explain NAMESPACE/NAME tells the reason of each; the status page lists all",
  ],
  [
    "a conflict",
    conflicting(),
    "conflict warning: default/a/tcp has 192.0.2.9:80/tcp, which default/bb/tcp wants, too; the older Service keeps an address and port, and connections never reach the other",
    "give one of them another address or port; the status page lists all",
  ],
])("%s is a problem", (_, changed, sentence, action) => {
  const found = problemsOf(facts(changed));
  expect(found.map((one) => `${one.kind} ${one.level}: ${one.found}; ${one.means}`)).toEqual([sentence]);
  expect(found[0]?.action).toBe(action);
});

test("nobody is sent to the log for what a failing source explains", () => {
  const stuck = { lastSynced: undefined, pendingSince: NOW - 76_000, problem: "waiting for services" };
  const found = problemsOf(facts({ ...sources({ ...FORBIDDEN, synced: false, lastEventAt: 0 }), ...stuck }));
  expect(found.map(({ kind, action }) => [kind, action])).toEqual([
    ["following", "remedy for forbidden"],
    ["programming", undefined],
  ]);
});
