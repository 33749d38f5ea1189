import { describe, expect, test } from "vitest";
import { proxyOfEnvironment } from "../../../../src/kube/client/proxy.ts";

const HTTPS_PROXY = "http://proxy.example:3128";

function proxyTo(server: string, env: Record<string, string>): string | undefined {
  return proxyOfEnvironment(new URL(server), env)?.host;
}

describe("the proxy of the environment", () => {
  test.each([
    ["https://api.example", { HTTPS_PROXY }, "proxy.example:3128"],
    ["https://api.example", { https_proxy: HTTPS_PROXY }, "proxy.example:3128"],
    ["https://api.example", { HTTPS_PROXY: "http://upper:1", https_proxy: "http://lower:1" }, "upper:1"],
    ["https://api.example", { HTTPS_PROXY: "proxy.example:3128" }, "proxy.example:3128"],
    ["https://api.example", { HTTPS_PROXY: "socks5://127.0.0.1:1080" }, "127.0.0.1:1080"],
    ["https://api.example", { HTTP_PROXY: HTTPS_PROXY }, undefined],
    ["http://api.example", { HTTPS_PROXY }, undefined],
    ["http://api.example", { HTTP_PROXY: HTTPS_PROXY }, "proxy.example:3128"],
    ["https://api.example", { HTTPS_PROXY: "" }, undefined],
    ["https://api.example", {}, undefined],
    ["https://localhost:6443", { HTTPS_PROXY }, undefined],
    ["https://127.8.0.1:6443", { HTTPS_PROXY }, undefined],
    ["https://[::1]:6443", { HTTPS_PROXY }, undefined],
  ])("to %s with %j is %s", (server, env, proxy) => {
    expect(proxyTo(server, env)).toBe(proxy);
  });

  test.each([
    ["https://10.96.0.1", "*", true],
    ["https://10.96.0.1", "10.96.0.1", true],
    ["https://10.96.0.1", "10.96.0.2, 10.96.0.0/12", true],
    ["https://10.112.0.1", "10.96.0.0/12", false],
    ["https://10.96.0.1", "10.96.0.0/33", false],
    ["https://10.96.0.1", "10.96.0.0/12/1", false],
    ["https://10.96.0.1", "::/0", false],
    ["https://10.96.0.1", "0.1", false],
    ["https://[fd00:10::1]:6443", "fd00:10::/32", true],
    ["https://[fd00:10::1]:6443", "fd00:10::1", true],
    ["https://[fd00:10::1]:6443", "[fd00:10::1]:6443", true],
    ["https://[fd00:10::1]:6443", "[fd00:10::1]:443", false],
    ["https://api.example", "EXAMPLE", true],
    ["https://API.example.", "api.example", true],
    ["https://example", ".example", false],
    ["https://api.example", ".example", true],
    ["https://api.example", "*.example", true],
    ["https://myexample", "example", false],
    ["https://api.example", "api.example:443", true],
    ["https://api.example:6443", "api.example:443", false],
    ["https://api.example", ",,", false],
  ])("to %s is excepted by NO_PROXY=%s: %s", (server, exceptions, excepted) => {
    expect(proxyTo(server, { HTTPS_PROXY, NO_PROXY: exceptions })).toBe(
      excepted ? undefined : "proxy.example:3128",
    );
  });

  test("that is no URL of a proxy is refused, without its text, which may hold a password", () => {
    const refused = () => proxyTo("https://api.example", { HTTPS_PROXY: "ftp://me:secret@proxy" });
    expect(refused).toThrow(
      "the environment variable HTTPS_PROXY is not the URL of an http, https or socks5 proxy",
    );
  });
});
