import { describe, expect, test } from "vitest";
import { readContext } from "../../../../src/kube/client/kubeconfig.ts";

/** A kubeconfig with these fields in its only cluster and user. */
function kubeconfig(user: object, cluster: object = {}): string {
  return JSON.stringify({
    "current-context": "c",
    contexts: [{ name: "c", context: { cluster: "c", user: "c" } }],
    clusters: [{ name: "c", cluster: { server: "https://192.0.2.1", ...cluster } }],
    users: [{ name: "c", user }],
  });
}

const read = (text: string) => readContext(text, "/etc/k/config");

describe("readContext", () => {
  test("reads file names and a plugin's path relative to the kubeconfig, and other names as they are", () => {
    const files = { "client-certificate": "a.crt", "client-key": "/b.key", tokenFile: "sub/token" };
    const text = kubeconfig({ ...files, exec: { command: "./plugin" } }, { "certificate-authority": "ca" });
    const { cluster, user, tokenFile } = read(text);
    expect([cluster.caFile, user.certFile, user.keyFile]).toEqual(["/etc/k/ca", "/etc/k/a.crt", "/b.key"]);
    expect([tokenFile, user.exec.command]).toEqual(["/etc/k/sub/token", "/etc/k/plugin"]);
    expect(read(kubeconfig({ exec: { command: "plugin" } })).user.exec.command).toBe("plugin");
  });

  test("reads null as absent", () => {
    const nothing = { token: null, tokenFile: null, "client-key": null, exec: null, "auth-provider": null };
    const { cluster, user, tokenFile } = read(kubeconfig(nothing, { "certificate-authority": null }));
    expect(tokenFile).toBe("");
    expect([cluster.caFile, user.keyFile, user.token, user.exec, user.authProvider].some(Boolean)).toBe(
      false,
    );
  });

  test("reads CRLF line ends and a byte order mark", () => {
    const text = kubeconfig({ token: "a" });
    const lines = JSON.stringify(JSON.parse(text), null, 2).replaceAll("\n", "\r\n");
    expect(read(`\uFEFF${lines}`)).toEqual(read(text));
  });

  test.each([
    ["no text", "", "it must be an object"],
    ["a list", "[]", "it must be an object"],
    ["several documents", "a: 1\n---\nb: 2\n", "it has several documents"],
    ["a list of contexts with nothing in it", "contexts: [null]", "contexts[0] must be an object"],
    ["contexts that are no list", "contexts: {}", "contexts must be an array"],
    [
      "a server that is a number",
      kubeconfig({}, { server: 5 }),
      "clusters[0].cluster.server must be a string",
    ],
    [
      "a token that is a number, without the token",
      kubeconfig({ token: 5 }),
      "users[0].user.token must be a string",
    ],
    [
      "a flag that is a text",
      kubeconfig({}, { "insecure-skip-tls-verify": "yes" }),
      "clusters[0].cluster.insecure-skip-tls-verify must be a boolean",
    ],
    [
      "a plugin without a command",
      kubeconfig({ exec: {} }),
      "users[0].user.exec must have required property 'command'",
    ],
    [
      "a plugin with a number among its arguments",
      kubeconfig({ exec: { command: "a", args: ["b", 1] } }),
      "users[0].user.exec.args[1] must be a string",
    ],
    [
      "text that is not YAML, without the line, which may hold a secret",
      "users:\n- name: a\n  user:\n    token: s3cr3t: x\n",
      "Nested mappings are not allowed in compact mappings at line 4, column 12",
    ],
  ])("refuses %s, with the reason on one line", (_name, text, reason) => {
    const refusal = () => read(text);
    expect(refusal).toThrow(new Error(reason));
  });

  test("reads the context of a name, and names the contexts there are for another one", () => {
    const text = JSON.stringify({
      ...JSON.parse(kubeconfig({})),
      contexts: ["c", "d"].map((name) => ({ name, context: { cluster: "c", user: "c" } })),
    });
    expect(["", "d"].map((name) => readContext(text, "/etc/k/config", name).name)).toEqual(["c", "d"]);
    expect(() => readContext(text, "/etc/k/config", "e")).toThrow("its contexts are: c and d");
  });
});
