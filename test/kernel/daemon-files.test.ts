import { cp, mkdir, mkdtemp, rename, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { townObjects } from "../support/command.ts";
import { DaemonLab } from "../support/daemon-lab.ts";
import type { RunningDaemon } from "../support/running-daemon.ts";
import { StubCluster } from "../support/stub-api/stub-cluster.ts";
import { loadTown } from "../support/stub-api/town.ts";

let lab: DaemonLab;
let mount: string;
let daemon: RunningDaemon;
beforeAll(async () => {
  lab = await DaemonLab.create();
  mount = await mkdtemp(join(tmpdir(), "mount-"));
  await mkdir(join(mount, "..first"));
  await cp(townObjects("town"), join(mount, "..first"), { recursive: true });
  await symlink("..first", join(mount, "..data"));
  for (const name of ["services", "endpointslices", "nodes", "servicecidrs"]) {
    await symlink(`..data/${name}.json`, join(mount, `${name}.json`));
  }
  daemon = lab.start(["--iptables-sync-period=1s"], [`--from=${mount}`]);
});
afterAll(async () => {
  await lab?.close();
  await rm(mount, { recursive: true });
});

function wanted(town: "town" | "town-after"): string {
  const cluster = new StubCluster();
  loadTown(cluster, town);
  return lab.wantedText({}, cluster);
}

/** Swaps the directory as the kubelet does. */
async function swapTo(directory: string): Promise<void> {
  await symlink(directory, join(mount, "..data_tmp"));
  await rename(join(mount, "..data_tmp"), join(mount, "..data"));
}

describe("objects from files", () => {
  beforeEach(() => expect(lab.api.requests).toEqual([]));

  test("are programmed without an API server", async () => {
    await lab.converging(wanted("town"));
  });

  test("are followed when the symbolic links of a ConfigMap are swapped", async () => {
    await cp(townObjects("town-after"), join(mount, "..second"), { recursive: true });
    await swapTo("..second");
    await lab.converging(wanted("town-after"));
  });

  test("stay in force when the files contain no objects at all", async () => {
    await mkdir(join(mount, "..none"));
    for (const name of ["services", "endpointslices", "nodes", "servicecidrs"]) {
      await writeFile(
        join(mount, "..none", `${name}.json`),
        '{"kind":"ServiceList","apiVersion":"v1","items":[]}',
      );
    }
    await swapTo("..none");
    const { err } = await daemon.saying(
      "cannot read the objects: the last known objects stay in use (logged once)",
    );
    expect(err).toBe("the files contain no Service, EndpointSlice or ServiceCIDR");
    expect(await lab.kernelText()).toBe(wanted("town-after"));
    await swapTo("..second");
  });

  test("stay in force while a file is only half written", async () => {
    await writeFile(join(mount, "..second", "services.json"), '{"kind":"ServiceList","items":[');
    await daemon.saying("cannot read the objects: the last known objects stay in use (logged once)", 2);
    expect(await lab.kernelText()).toBe(wanted("town-after"));
    await cp(join(townObjects("town"), "services.json"), join(mount, "..second", "services.json"));
    await expect.poll(() => lab.kernelText()).not.toBe(wanted("town-after"));
    expect(await daemon.stop()).toBe(0);
  });
});
