import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { resolveOptions } from "../../../src/config/resolve.ts";
import { errorOf, fileWith } from "./support.ts";

const resolved = (configText: string) => resolveOptions({ configText, configName: "proxy.yaml" });

function configMap(data: unknown): string {
  return JSON.stringify({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "kube-proxy" }, data });
}

describe("the text of a configuration", () => {
  it("may be JSON", () => {
    const document = {
      apiVersion: "kubeproxy.config.k8s.io/v1alpha1",
      kind: "KubeProxyConfiguration",
      oomScoreAdj: 1,
    };
    expect(resolved(JSON.stringify(document)).options.oomScoreAdj).toBe(1);
  });

  it("may have markers and comments around its one document", () => {
    const text = `# ours\n---\n${fileWith("oomScoreAdj: 1\n")}---\n# nothing more\n`;
    expect(resolved(text).options.oomScoreAdj).toBe(1);
  });

  it.each([
    ["empty", "", "it is empty"],
    ["without a document", "# nothing\n---\n", "it is empty"],
    ["two documents", `${fileWith("")}---\n${fileWith("")}`, "it contains 2 documents instead of one"],
    ["indented by tabs", "a:\n\t- b", "Tabs are not allowed as indentation at line 2"],
    ["cut short", "a: [", "at line 1, column 5"],
    ["an alias of nothing", "a: *b", "Unresolved alias"],
    ["longer than 2 MiB", "#".repeat(2 ** 21 + 1), "it is longer than 2 MiB"],
    ["YAML that nests too deeply", "[".repeat(20_000), "it nests deeper than 32 levels"],
    ["JSON that nests too deeply", '{"a":'.repeat(20_000), "it nests deeper than 32 levels"],
  ])("is refused, with the reason in one line, when it is %s", (_what, text, reason) => {
    const error = errorOf(() => resolved(text));
    expect(error.code).toBe("BAD_CONFIG");
    expect(error.message).toMatch(/^proxy\.yaml cannot be read: [^\n]*$/);
    expect(error.message).toContain(reason);
  });

  it("has the last value of a field that is given more than once, and a warning, as in kube-proxy", () => {
    const lines = "oomScoreAdj: 1\nconntrack: {min: 1, min: 2, min: 3}\noomScoreAdj: 2\n";
    for (const text of [fileWith(lines), configMap({ "config.conf": fileWith(lines) })]) {
      const { options, warnings } = resolved(text);
      expect([options.oomScoreAdj, options.conntrack.min]).toEqual([2, 3]);
      const repeated = ["conntrack.min", "conntrack.min", "oomScoreAdj"];
      expect(warnings).toEqual(
        repeated.map((path) => `${path} is given more than once: the last value is used`),
      );
    }
  });

  it("is refused when it gives a field of nftProxy more than once", () => {
    const { evidence } = errorOf(() =>
      resolved(fileWith("nftProxy: {scheduler: random, scheduler: random}")),
    );
    expect(evidence).toEqual({ "nftProxy.scheduler": "must not be given more than once" });
  });

  it("is refused when its aliases expand to too much data", () => {
    const lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"];
    for (let level = 1; level <= 9; level++) {
      lines.push(
        `a${level}: &a${level} [${Array(10)
          .fill(`*a${level - 1}`)
          .join(", ")}]`,
      );
    }
    expect(errorOf(() => resolved(fileWith(lines.join("\n")))).message).toContain("Excessive alias count");
  });
});

describe("a ConfigMap", () => {
  it("of this repository is valid, without a warning", () => {
    const { options, warnings } = resolved(readFileSync("deploy/base/config.yaml", "utf8"));
    expect(warnings).toEqual([]);
    expect(options.clusterCIDRs.ip).toEqual(["10.244.0.0/16"]);
  });

  it("may hold its only configuration under any key, beside other texts", () => {
    const data = { "kubeconfig.conf": "kind: Config", "proxy.yaml": fileWith("oomScoreAdj: 3\n") };
    expect(resolved(configMap(data)).options.oomScoreAdj).toBe(3);
  });

  it("with two configurations under other keys is refused", () => {
    const error = errorOf(() => resolved(configMap({ a: fileWith(""), b: fileWith("") })));
    expect(error.message).toBe("proxy.yaml: the ConfigMap contains several configurations (a, b)");
  });

  it("holds the configuration under config.conf, or else under config", () => {
    const first = fileWith("oomScoreAdj: 1\n");
    const second = fileWith("oomScoreAdj: 2\n");
    expect(resolved(configMap({ "config.conf": first, config: second })).options.oomScoreAdj).toBe(1);
    expect(resolved(configMap({ config: second })).options.oomScoreAdj).toBe(2);
  });

  it.each([[undefined], [{}], [{ other: "x" }], [{ config: { kind: "x" } }], ["text"]])(
    "with the data %j is refused for lack of a configuration",
    (data) => {
      const error = errorOf(() => resolved(configMap(data)));
      expect(error).toMatchObject({
        code: "BAD_CONFIG",
        message: "proxy.yaml: the ConfigMap contains no configuration",
      });
    },
  );

  it("with a broken text is refused with the key of the text", () => {
    const error = errorOf(() => resolved(configMap({ config: "a: [" })));
    expect(error.message).toMatch(/^proxy\.yaml, data\["config"\] cannot be read/);
  });
});
