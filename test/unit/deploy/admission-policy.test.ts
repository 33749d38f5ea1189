import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Environment } from "@marcbachmann/cel-js";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { FEATURES } from "../../../src/features/registry.ts";

interface Policy {
  readonly spec: {
    readonly matchConstraints: {
      readonly resourceRules: readonly {
        readonly operations: readonly string[];
        readonly resources: unknown;
      }[];
    };
    readonly variables: readonly { readonly name: string; readonly expression: string }[];
    readonly validations: readonly { readonly expression: string; readonly message: string }[];
  };
}

const POLICY = join(import.meta.dirname, "../../../deploy/admission/policy.yaml");
const { spec } = parse(readFileSync(POLICY, "utf8")) as Policy;

/** The API server's `authorizer`, step by step: a question about the rights of the user. */
class Question {
  readonly asked: Readonly<Record<string, string>>;

  constructor(asked: Readonly<Record<string, string>> = {}) {
    this.asked = asked;
  }
}

class Decision {
  readonly allowed: boolean;

  constructor(allowed: boolean) {
    this.allowed = allowed;
  }
}

/** The CEL functions of the API server's authorizer, https://kubernetes.io/docs/reference/using-api/cel/ */
function environment(mayUse: (asked: Question["asked"]) => boolean): Environment {
  const env = new Environment({ unlistedVariablesAreDyn: true })
    .registerType("Question", Question)
    .registerType("Decision", Decision)
    .registerFunction("Decision.allowed(): bool", (decision: Decision) => decision.allowed)
    .registerFunction("Question.check(string): Decision", ({ asked }: Question, verb: string) => {
      return new Decision(mayUse({ ...asked, verb }));
    });
  for (const step of ["group", "resource", "namespace", "name"]) {
    env.registerFunction(`Question.${step}(string): Question`, ({ asked }: Question, value: string) => {
      return new Question({ ...asked, [step]: value });
    });
  }
  return env;
}

type Annotations = Readonly<Record<string, string>> | undefined;

function object(annotations: Annotations) {
  const metadata = { name: "web", namespace: "voice" };
  return { metadata: annotations === undefined ? metadata : { ...metadata, annotations } };
}

/**
 * Returns the messages by which the policy denies a request.
 * @param before the annotations of the object before an UPDATE; null for a CREATE
 * @param allowed the feature that the user may use in the namespace `voice`
 */
function denials(after: Annotations, before: Annotations | null, allowed = ""): string[] {
  const right = {
    group: "nft-proxy.io",
    resource: "features",
    namespace: "voice",
    name: allowed,
    verb: "use",
  };
  const env = environment((asked) => JSON.stringify(asked) === JSON.stringify(right));
  const variables: Record<string, unknown> = {};
  const given = {
    object: object(after),
    oldObject: before === null ? null : object(before),
    authorizer: new Question(),
    variables,
  };
  for (const { name, expression } of spec.variables) variables[name] = env.evaluate(expression, given);
  return spec.validations.flatMap(({ expression, message }) => {
    const passes: unknown = env.evaluate(expression, given);
    if (typeof passes !== "boolean") throw new Error(`${expression} is neither true nor false`);
    return passes ? [] : [message];
  });
}

const ANNOTATIONS = FEATURES.flatMap(({ name: feature, annotations = [], sliceAnnotations = [] }) =>
  [...annotations, ...sliceAnnotations].map(({ name }) => ({ feature, name })),
);

describe("the admission policy", () => {
  test("applies to every request that may set an annotation", () => {
    const rules = spec.matchConstraints.resourceRules;
    expect(rules.map(({ operations }) => operations)).toEqual(rules.map(() => ["CREATE", "UPDATE"]));
    expect(rules.flatMap(({ resources }) => resources)).toEqual([
      "services",
      "services/status",
      "endpointslices",
    ]);
  });

  test.each(ANNOTATIONS)("lets only users of $feature set $name", ({ feature, name }) => {
    const message = `you may not use the feature ${feature} of nft-proxy in this namespace`;
    const [set, changed] = [
      { team: "a", [name]: "1" },
      { team: "a", [name]: "2" },
    ];
    expect(denials(set, null)).toEqual([message]);
    expect(denials(set, undefined)).toEqual([message]);
    expect(denials(set, { team: "a" })).toEqual([message]);
    expect(denials(changed, set)).toEqual([message]);
    expect(denials(set, null, "another")).toEqual([message]);
    expect(denials(set, null, feature)).toEqual([]);
    expect(denials(changed, set, feature)).toEqual([]);
  });

  test.each(ANNOTATIONS)("lets $name stay, and lets everyone remove it", ({ name }) => {
    const set = { [name]: "1" };
    expect(denials({ ...set, team: "b" }, { ...set, team: "a" })).toEqual([]);
    expect(denials({}, set)).toEqual([]);
    expect(denials(undefined, set)).toEqual([]);
  });

  test("asks about each of several features", () => {
    const all = Object.fromEntries(ANNOTATIONS.map(({ name }) => [name, "1"]));
    expect(denials(all, null)).toEqual(spec.validations.map(({ message }) => message));
    expect(denials(all, null, "schedulers")).toHaveLength(spec.validations.length - 1);
  });

  test("does not restrict other annotations, or objects without any", () => {
    const others = { team: "a", "ignore-check.nft-proxy.io/no-endpoints": "yes" };
    expect(denials(others, null)).toEqual([]);
    expect(denials(others, {})).toEqual([]);
    expect(denials(undefined, null)).toEqual([]);
    expect(denials(undefined, undefined)).toEqual([]);
  });
});
