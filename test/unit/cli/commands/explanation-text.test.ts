import { readFileSync } from "node:fs";
import { stripVTControlCharacters } from "node:util";
import { Ajv } from "ajv";
import { afterEach, expect, test, vi } from "vitest";
import { allReportText, explanationText } from "../../../../src/cli/commands/explanation-text.ts";
import { COLOURED, PLAIN, wrapped } from "../../../../src/cli/terminal.ts";
import { explain } from "../../../../src/inspect/explain/explain.ts";
import { type ExplainInput, hostOf } from "../../../../src/inspect/explain/explain-input.ts";
import type { Connection, Explanation } from "../../../../src/inspect/explain/explanation.ts";
import { Renderer } from "../../../../src/ruleset/renderer.ts";
import { cacheOf, endpoint, named, service, slice, testNodeContext } from "../../../support/build.ts";
import { explained } from "../../../support/explained.ts";

const TO_WEB: Connection = {
  from: { address: "10.244.1.5", at: "pod", known: "given" },
  to: "10.96.0.10",
  port: 80,
  protocol: "tcp",
};

function explanation(count: number, options: Pick<ExplainInput, "daemon"> = {}): Explanation {
  const endpoints = Array.from({ length: count }, (_, i) =>
    endpoint(`10.244.2.${i + 1}`, { ready: i % 5 !== 0 }),
  );
  const cache = cacheOf({ services: [service()], slices: [slice({ endpoints })] });
  const nodeContext = testNodeContext();
  const renderer = new Renderer(cache, nodeContext);
  renderer.update(cache.takeDirty());
  const input: ExplainInput = {
    cache,
    nodeContext,
    state: renderer.state,
    ignored: [],
    objectsKnown: true,
    loadBalancers: [],
    host: hostOf(nodeContext, []),
    ...options,
  };
  return explain(TO_WEB, input);
}

test("an explanation sums up endpoints that do not fit on a screen in its text, not in its data", () => {
  const many = explanation(100);
  const lines = explanationText(many, PLAIN).split("\n");
  expect(lines.length).toBeLessThan(50);
  expect(lines).toContain("        and 70 more used, 10 more excluded");
  expect(many.endpoints).toHaveLength(100);
  expect(
    many.steps.flatMap(({ elements }) => elements).filter((text) => text.startsWith("endpoints ")),
  ).toHaveLength(80 + 80 + 72);
});

test("explain --all without Services says so", () => {
  expect(allReportText({ kind: "all", ports: [], services: 0, problemsOnly: true }, PLAIN)).toBe(
    "no Services\n",
  );
});

test("a conclusion whose message names the outcome does not repeat it", () => {
  const verdict = {
    result: "dropped",
    cause: "other-table",
    message: "dropped by table inet fw (policy drop)",
  } as const;
  const lines = explanationText({ ...explanation(1), verdict }, PLAIN)
    .trimEnd()
    .split("\n");
  expect(lines.at(-1)).toBe("Dropped by table inet fw (policy drop).");
});

test("suggested commands have lines of their own, are not wrapped, and can be pasted as they are", () => {
  const verdict = {
    result: "refused",
    cause: "no-endpoints",
    message: "Service shop/cart has no endpoints",
    action: "compare its selector with the labels of the pods",
    commands: ["kubectl -n shop get service cart -o wide", "kubectl -n shop get pods --show-labels"],
  } as const;
  const text = explanationText({ ...explanation(1), verdict }, { ...PLAIN, columns: 30 });
  expect(text.trimEnd().split("\n").slice(-5)).toEqual([
    "  no endpoints; compare its",
    "  selector with the labels of",
    "  the pods:",
    "    kubectl -n shop get service cart -o wide",
    "    kubectl -n shop get pods --show-labels",
  ]);
});

test("an explanation names the endpoints that left its Service and whose clients are reset, and none of other Services", () => {
  const left = {
    family: "ip",
    target: "10.244.2.99 . 8080",
    services: [named("web")],
    leftAt: 1_000_000,
  } as const;
  const endpoints = [left, { ...left, services: [named("other")], target: "10.244.2.98 . 8080" }];
  const whole = explanation(1, {
    daemon: {
      features: { "connection-life": { held: endpoints, draining: [] } },
      ejected: [],
      now: 1_083_000,
    },
  });
  const { notes } = whole;
  const schema = JSON.parse(
    readFileSync(new URL("../../../../schemas/explain.schema.json", import.meta.url), "utf8"),
  );
  expect(new Ajv().compile(schema)({ explanations: [whole] })).toBe(true);
  expect(notes.filter(({ topic }) => topic === "reset")).toEqual([
    {
      topic: "reset",
      message:
        "the endpoint 10.244.2.99:8080 left default/web port 80/tcp 1m23s ago; clients that are still connected to it are reset",
    },
  ]);
});

test("an explanation's shares of connections add up to 1", () => {
  const shares = explanation(7).endpoints.map(({ probability }) => probability);
  expect(shares.reduce((sum, share) => sum + share, 0)).toBeCloseTo(1, 5);
});

test("control characters in an object's text are replaced before they reach the terminal", () => {
  const [first, ...rest] = explanation(2).endpoints;
  const evil = { ...explanation(2), endpoints: [{ ...first, pod: "a/b\u001b[2J\u0007\u009b1m\n" }, ...rest] };
  expect(explanationText(evil as Explanation, PLAIN)).toContain("a/b?[2J??1m?");
});

test("colours change no word of an explanation", () => {
  const coloured = explanationText(explanation(3), COLOURED);
  expect(coloured).toContain("\u001b[32mServed\u001b[39m: goes to");
  expect(stripVTControlCharacters(coloured)).toBe(explanationText(explanation(3), PLAIN));
});

test("wrapped breaks lines at blanks, and leaves long words whole", () => {
  expect(wrapped("aa bb cc", "- ", "  ", 8)).toEqual(["- aa bb", "  cc"]);
  expect(wrapped("aaaaaaaaaaaa b", "- ", "  ", 8)).toEqual(["- aaaaaaaaaaaa", "  b"]);
});

const MANIFEST = `
apiVersion: v1
kind: Service
metadata: { namespace: shop, name: cart }
spec: { clusterIP: 10.96.0.7, ports: [{ port: 80 }] }
`;

afterEach(() => vi.unstubAllEnvs());

test.each([
  ["a terminal", true, true, {}],
  ["a terminal where NO_COLOR is set", false, true, { NO_COLOR: "1" }],
  ["a terminal where NO_COLOR is empty", true, true, { NO_COLOR: "" }],
  ["a terminal without control sequences", false, true, { TERM: "dumb" }],
  ["a terminal where FORCE_COLOR is 0", false, true, { FORCE_COLOR: "0" }],
  [
    "a dumb terminal where FORCE_COLOR and NO_COLOR are set",
    true,
    true,
    { FORCE_COLOR: "1", NO_COLOR: "1", TERM: "dumb" },
  ],
  ["a pipe", false, undefined, {}],
  ["a pipe where FORCE_COLOR is set", true, undefined, { FORCE_COLOR: "1" }],
])("an explanation printed to %s is coloured: %s", async (_what, isColoured, isTerminal, environment) => {
  const variables = { FORCE_COLOR: undefined, NO_COLOR: undefined, TERM: "xterm", ...environment };
  for (const [name, value] of Object.entries(variables)) vi.stubEnv(name, value);
  const before = process.stdout.isTTY;
  process.stdout.isTTY = isTerminal as boolean;
  try {
    const { text } = await explained(MANIFEST, { to: "10.96.0.7", port: "80" });
    expect(text.includes("\u001b[")).toBe(isColoured);
  } finally {
    process.stdout.isTTY = before;
  }
});
