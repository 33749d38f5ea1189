import { describe, expect, test } from "vitest";
import { readCurrentContext } from "../../../../src/kube/client/kubeconfig-document.ts";

/** A kubeconfig with these fields in its only cluster and user. */
function kubeconfig(user: object, cluster: object = {}): string {
  return JSON.stringify({
    "current-context": "c",
    contexts: [{ name: "c", context: { cluster: "c", user: "c" } }],
    clusters: [{ name: "c", cluster: { server: "https://192.0.2.1", ...cluster } }],
    users: [{ name: "c", user }],
  });
}

const read = (text: string) => readCurrentContext(text, "/etc/k");

describe("readCurrentContext", () => {
  test("reads file names and a plugin's path relative to the kubeconfig, and other names as they are", () => {
    const files = { "client-certificate": "a.crt", "client-key": "/b.key", tokenFile: "sub/token" };
    const { cluster, user } = read(
      kubeconfig({ ...files, exec: { command: "./plugin" } }, { "certificate-authority": "ca" }),
    );
    expect(cluster.caFile).toBe("/etc/k/ca");
    expect(user).toMatchObject({ certFile: "/etc/k/a.crt", keyFile: "/b.key", tokenFile: "/etc/k/sub/token" });
    expect(user.exec?.command).toBe("/etc/k/plugin");
    expect(read(kubeconfig({ exec: { command: "plugin" } })).user.exec?.command).toBe("plugin");
  });

  test("reads null as absent, CRLF line ends and a byte order mark", () => {
    const text = kubeconfig({ token: null, exec: null, "auth-provider": null }, { "insecure-skip-tls-verify": null });
    const expected = read(kubeconfig({}));
    expect(read(text)).toEqual(expected);
    expect(read(`\uFEFF${JSON.stringify(JSON.parse(text), null, 2).replaceAll("\n", "\r\n")}`)).toEqual(expected);
  });

  test.each([
    ["no text", "", "it is not a mapping"],
    ["a list", "[]", "it is not a mapping"],
    ["several documents", "a: 1\n---\nb: 2\n", "it has several documents"],
    ["a list of contexts with nothing in it", "contexts: [null]", "contexts[0] is not a mapping"],
    ["contexts that are no list", "contexts: {}", "contexts is not a list"],
    ["a server that is a number", kubeconfig({}, { server: 5 }), "clusters[0].cluster.server is not a text: quote it"],
    ["a token that is a number", kubeconfig({ token: 5 }), "users[0].user.token is not a text: quote it"],
    [
      "a flag that is a text",
      kubeconfig({}, { "insecure-skip-tls-verify": "yes" }),
      "clusters[0].cluster.insecure-skip-tls-verify is neither true nor false",
    ],
    ["a plugin without a command", kubeconfig({ exec: {} }), "users[0].user.exec.command is missing"],
    [
      "a plugin with a number among its arguments",
      kubeconfig({ exec: { command: "a", args: ["b", 1] } }),
      "users[0].user.exec.args[1] is not a text: quote it",
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
});
