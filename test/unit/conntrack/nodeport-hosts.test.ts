import { expect, test } from "vitest";
import { nodePortHosts } from "../../../src/conntrack/nodeport-hosts.ts";

const ofHost = async () => ({ ip: ["127.0.0.1", "192.0.2.2", "192.0.2.3"], ip6: ["::1", "fd00::2"] });

test.each([
  [
    "the selected ones where some are selected, without reading the host",
    [{ family: "ip", nodePorts: { kind: "addresses", addresses: ["192.0.2.2"] } }],
    ["192.0.2.2"],
  ],
  [
    "all but loopback where all are selected",
    [
      { family: "ip", nodePorts: { kind: "all" } },
      { family: "ip6", nodePorts: { kind: "addresses", addresses: [] } },
    ],
    ["192.0.2.2", "192.0.2.3"],
  ],
  ["none of a family that is not programmed", [{ family: "ip6", nodePorts: { kind: "all" } }], ["fd00::2"]],
] as const)("the addresses that serve NodePorts are %s", async (title, selected, expected) => {
  const read = title.includes("without reading") ? () => Promise.reject(new Error("read")) : ofHost;
  expect([...(await nodePortHosts(selected, read))]).toEqual(expected);
});
