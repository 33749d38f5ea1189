import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { DEPLOY } from "../../support/overlays.ts";

const SOURCE = join(DEPLOY, "../src");
const TEXTS = new Map(
  readdirSync(SOURCE, { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".ts"))
    .map((path) => [path, readFileSync(join(SOURCE, path), "utf8")] as const),
);

function filesWith(pattern: RegExp): string[] {
  return [...TEXTS].flatMap(([path, text]) => (pattern.test(text) ? [path] : [])).sort();
}

/** What SECURITY.md says of all the code there is. */
test("the code starts programs in three places, with argument lists and without a shell", () => {
  expect(filesWith(/from "(?:execa|node:child_process)"/)).toEqual([
    "kernel/process.ts",
    "kernel/running-programs.ts",
    "kube/client/credential-plugin.ts",
  ]);
  expect(filesWith(/\bshell:|execaCommand|execSync/)).toEqual([]);
});

test("the code writes files in three places: for the user, as settings of the kernel, and to remember reserved ports", () => {
  expect(filesWith(/\b(?:writeFile|writeFileSync|appendFile|createWriteStream)\b/)).toEqual([
    "daemon/state-file.ts",
    "kernel/host.ts",
    "kernel/reserved-ports.ts",
  ]);
});

test("the code only connects to the daemon's socket, relayed NodePorts, this host's health checks, suspect endpoints, and the API server or its proxy", () => {
  const connects = /import \{[^}]*\bconnect\b[^}]*\} from "node:(?:net|tls)"/;
  const requests = /extends \w+ProxyAgent\b|\bfetch\(|\brequest as \w+|createConnection\(|createSocket\(/;
  expect([...new Set([...filesWith(connects), ...filesWith(requests)])].sort()).toEqual([
    "daemon/daemon-socket.ts",
    "daemon/loopback/loopback-proxy.ts",
    "features/passive-health-checks/probe.ts",
    "inspect/http-answer.ts",
    "kube/client/agents.ts",
    "kube/client/client.ts",
    "socket/daemon-client.ts",
  ]);
});

test("the code computes no digest but SHA-256, as hosts in FIPS mode need", () => {
  const digests = [...TEXTS.values()].flatMap((text) => [
    ...text.matchAll(/\b(createHash|createHmac|createCipheriv|createSign|scrypt|pbkdf2)\w*\(([^)]*)\)/g),
  ]);
  expect(new Set(digests.map(([, name, digest]) => `${name} ${digest}`))).toEqual(
    new Set(['createHash "sha256"']),
  );
});

test("the code never lists or flushes the whole ruleset", () => {
  expect(filesWith(/"(?:list|flush)",\s*"ruleset"|\bflush ruleset\b|\blist ruleset\b/)).toEqual([]);
  expect(filesWith(/"list", "(?:tables|chains)"/)).toEqual(["kernel/nft-listings.ts"]);
});
