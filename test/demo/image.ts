// The image without a container engine: the daemon as the DaemonSet starts it, in the root file system that
// scripts/make-image-root.sh made (the argument), beside a pretended API server that serves the recorded
// town.
import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { Pod } from "../support/container.ts";
import { makeAuthority } from "../support/stub-api/certificates.ts";
import { StubApi } from "../support/stub-api/stub-api.ts";
import { loadTown } from "../support/stub-api/town.ts";

const [root = ""] = process.argv.slice(2);
const token = "token-of-the-service-account";
const authority = makeAuthority();
const api = await StubApi.start({ certificate: authority.server });
api.tokens.add(token);
loadTown(api.cluster);
const pod = new Pod(root, {
  ...{ nodeName: "node-1", host: "127.0.0.1", port: String(api.port) },
  ...{ token, ca: authority.ca },
});
await pod.mount();

async function show(...command: string[]): Promise<string> {
  const { all, exitCode } = await pod.exec(command);
  console.log(`\n$ ${command.join(" ")}\n${all}${exitCode === 0 ? "" : `\n(exit code ${exitCode})`}`);
  return all ?? "";
}

/** Waits up to 10 s. */
async function until(what: string, isSo: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 100; tries++) {
    if (await isSo()) {
      console.log(`\n# ${what}`);
      return;
    }
    await sleep(100);
  }
  throw new Error(`not within 10 s: ${what}`);
}

const hasTables = async () => (await pod.exec(["nft", "list", "tables"])).stdout.split("\n").length === 2;

await show("node", "--version");
await show("nft", "--version");
await show("socat", "-V");
await show("node", "--eval", "require('fs').writeFileSync('/here', '')");
const { all: initOutput, exitCode: initCode } = await pod.init();
console.log(`\n# the init container ended with ${initCode}\n${initOutput}`);
await pod.confine();

const daemon = pod.daemon();
daemon.all.pipe(process.stdout);
try {
  await until("both tables are there", hasTables);
  await until("/livez answers 200", async () => (await fetch("http://127.0.0.1:10256/livez")).ok);
  await show("nft-proxy", "doctor");
  const status = readFileSync(`/proc/${daemon.pid}/status`, "utf8").split("\n");
  console.log(`\n${status.filter((line) => /^(?:VmHWM|VmRSS|CapEff)/.test(line)).join("\n")}`);
  await pod.exec(["nft", "delete", "table", "ip", "nft-proxy"]);
  await until("a table that was deleted is back", hasTables);
  daemon.kill("SIGUSR1");
  await until("SIGUSR1 wrote the state to /tmp", async () => readdirSync(`${root}/tmp`).length > 0);
  const asked = api.requests.map(({ method, path }) => `${method} ${path}`);
  console.log(`\n# the API server was asked for\n${[...new Set(asked)].sort().join("\n")}`);
} finally {
  daemon.kill("SIGTERM");
  console.log(
    `\n# SIGTERM: exit code ${(await daemon).exitCode}; the tables are ${(await hasTables()) ? "" : "not "}left`,
  );
  await show("nft-proxy", "cleanup");
  await api.close();
}
