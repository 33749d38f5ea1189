import type { V1ClusterRole, V1ClusterRoleBinding, V1PolicyRule } from "@kubernetes/client-node";
import { expect, test } from "vitest";
import { eventRecorder } from "../../../src/daemon/events/event-recorder.ts";
import { warning } from "../../../src/daemon/events/events.ts";
import { resources } from "../../../src/kube/reflector/resources.ts";
import { manifestFaults } from "../../support/kubernetes-schema.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { memoryLogger } from "../../support/memory-logger.ts";
import { buildOverlay, buildOwn } from "../../support/overlays.ts";

const manifests = buildOverlay("explicit-control-plane");

/** `verb group/resource` of an API path and what is done with it. */
function permission(verb: string, path: string): string {
  const [, group = "", rest = ""] = /^\/apis\/([^/]+)\/v1\/(.+)$/.exec(path) ?? [];
  const resource = (group === "" ? path.replace("/api/v1/", "") : rest).replace(/^namespaces\/[^/]+\//, "");
  return `${verb} ${group}/${resource.split("/")[0]}`;
}

function granted({ apiGroups = [], resources: names = [], verbs }: V1PolicyRule): string[] {
  return apiGroups.flatMap((group) =>
    names.flatMap((name) => verbs.map((verb) => `${verb} ${group}/${name}`)),
  );
}

/** What recording an Event and its repetition asks of the API server. */
async function usedByEvents(): Promise<string[]> {
  const used: string[] = [];
  const clock = new ManualClock();
  const send = async (method: string, path: string) => {
    used.push(permission(method === "POST" ? "create" : "patch", path));
  };
  const recorder = eventRecorder({
    ...{ send, clock, logger: memoryLogger(), instance: "n", makeId: () => "id" },
    onDropped: () => {
      throw new Error("dropped");
    },
  });
  const node = { kind: "Node", namespace: "", name: "n", uid: "" } as const;
  const event = warning(node, "RulesRepaired", "Repair", "gone");
  recorder.record(event);
  recorder.record(event);
  clock.advance(60_000);
  await recorder.stop();
  return used;
}

test("the ClusterRole grants exactly what the code uses", async () => {
  const followed = Object.values(resources("n")).flatMap(({ path }) => [
    permission("list", path),
    permission("watch", path),
  ]);
  const role = manifests.find(({ kind }) => kind === "ClusterRole") as unknown as V1ClusterRole;
  expect((role.rules ?? []).flatMap(granted).sort()).toEqual([...followed, ...(await usedByEvents())].sort());
});

test("the ClusterRole is bound to the service account of the pods", () => {
  const binding = manifests.find(
    ({ kind }) => kind === "ClusterRoleBinding",
  ) as unknown as V1ClusterRoleBinding;
  expect(binding.roleRef).toMatchObject({ kind: "ClusterRole", name: "nft-proxy" });
  expect(binding.subjects).toEqual([{ kind: "ServiceAccount", name: "nft-proxy", namespace: "kube-system" }]);
  const daemonSet = manifests.find(({ kind }) => kind === "DaemonSet");
  expect(daemonSet).toMatchObject({ spec: { template: { spec: { serviceAccountName: "nft-proxy" } } } });
  expect(manifests.find(({ kind }) => kind === "ServiceAccount")?.metadata.name).toBe("nft-proxy");
});

test("the roles of operators grant what fleet and support-bundle ask, and logs and commands in the pods", () => {
  const roles = buildOwn({ resources: ["../operators"] });
  expect(roles.flatMap(manifestFaults)).toEqual([]);
  const [operator, nodes] = roles.map((role) => (role as unknown as V1ClusterRole).rules?.flatMap(granted));
  expect(operator).toEqual(
    expect.arrayContaining(["list /pods", "list apps/daemonsets", "get /pods/proxy", "create /pods/exec"]),
  );
  expect(nodes).toEqual([
    "list /nodes",
    ...["list /services", "list discovery.k8s.io/endpointslices", "list networking.k8s.io/servicecidrs"],
  ]);
});
