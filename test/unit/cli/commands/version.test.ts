import { expect, test } from "vitest";
import { run, versionsText } from "../../../../src/cli/commands/version.ts";
import { quietReporter } from "../../../support/command.ts";
import { schemaErrors } from "../../../support/output-schema.ts";

test("version answers without a daemon and without nft, and says what it lacks", async () => {
  const argv = { "daemon-socket": ["/nowhere/daemon.sock"], "nft-path": ["/nowhere/nft"] };
  const { exitCode = 0, output } = await run({ ...argv, output: ["json"] }, quietReporter());
  const versions = JSON.parse(String(output));
  expect({ exitCode, errors: schemaErrors("version", versions) }).toEqual({ exitCode: 0, errors: [] });
  expect(versions).toEqual({
    nftProxy: "0.0.0-test",
    daemon: { problem: "none answers at /nowhere/daemon.sock" },
    nft: expect.stringContaining('unavailable: cannot start nft at "/nowhere/nft"'),
    kernel: expect.stringMatching(/^\d+\.\d+/),
    socat: expect.stringMatching(/^\d|^unavailable: socat cannot be started$/),
    nodejs: process.version,
  });
});

test("version does not ask a daemon if its socket is empty", async () => {
  const { output } = await run({ "daemon-socket": [""], "nft-path": ["/nowhere/nft"] }, quietReporter());
  expect(output).toMatch(/^daemon {5}not asked$/m);
});

test("version prints a line for each program, with the daemon's node and uptime", () => {
  const daemon = { version: "1.2.3", nodeName: "node-1", socket: "/run/daemon.sock", uptimeSeconds: 90 };
  const versions = {
    nftProxy: "1.3.0",
    daemon,
    nft: "nftables v1.1.3",
    kernel: "6.18.1",
    socat: "1.8.0.3",
    nodejs: "v20.20.2",
  };
  expect(versionsText(versions).split("\n")).toEqual([
    "nft-proxy  1.3.0",
    "daemon     1.2.3 on node-1, up for 1m30s",
    "nft        nftables v1.1.3",
    "kernel     6.18.1",
    "socat      1.8.0.3",
    "Node.js    v20.20.2",
    "",
  ]);
  expect(schemaErrors("version", versions)).toEqual([]);
});
