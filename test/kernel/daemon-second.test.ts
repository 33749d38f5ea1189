import { afterAll, beforeAll, expect, test } from "vitest";
import { DaemonLab } from "../support/daemon-lab.ts";
import { loadTown } from "../support/stub-api/town.ts";

let lab: DaemonLab;
beforeAll(async () => {
  lab = await DaemonLab.create();
  loadTown(lab.cluster);
});
afterAll(() => lab?.close());

/** Options that differ from the first daemon's, as those of a second DaemonSet. */
const SECOND = [
  "--healthz-bind-address=0.0.0.0:10356",
  "--metrics-bind-address=127.0.0.1:10349",
  "--daemon-socket=",
  "--masquerade-all",
  "--conntrack-udp-timeout=77s",
];
const UDP_TIMEOUT = "/proc/sys/net/netfilter/nf_conntrack_udp_timeout";

/** A process id above Linux' limit. Source: proc(5), pid_max. */
const NOBODY = 2 ** 22 + 1;

test("a second daemon with other options logs this, is not ready, changes nothing, and takes over when the first is killed", async () => {
  const first = lab.start();
  await lab.converged();
  const before = await lab.nft("-j", "list", "table", "ip", "nft-proxy");
  const second = lab.start(SECOND);
  await second.saying("another nft-proxy runs in this network namespace: waiting");
  expect((await lab.get(10356, "/readyz")).status).toBe(503);
  expect((await lab.get(10356, "/livez")).status).toBe(200);
  expect(await lab.nft("-j", "list", "table", "ip", "nft-proxy")).toBe(before);
  expect(await lab.lab.mustRun("node", ["cat", UDP_TIMEOUT])).not.toContain("77");
  const orphan = lab.lab.start("node", ["env", `NFT_PROXY_STARTED_BY=${NOBODY}`, "sleep", "600"]);
  first.signal("SIGKILL");
  await first.ended;
  await second.saying("the other nft-proxy has ended: starting");
  await second.saying("full sync");
  await orphan.ended;
  expect(await lab.lab.mustRun("node", ["cat", UDP_TIMEOUT])).toContain("77");
  await expect.poll(async () => (await lab.get(10356, "/readyz")).status, { timeout: 30_000 }).toBe(200);
  expect(await second.stop()).toBe(0);
});
