import { describe, expect, test } from "vitest";
import { fastPath } from "../../../src/features/fast-path/feature.ts";
import { nftProgram } from "../../../src/kernel/nft.ts";
import type { Command } from "../../../src/nft/ast/json.ts";
import { renderAll, testNodeContext } from "../../support/build.ts";
import { FakeHostFiles } from "../../support/fake-host-files.ts";
import { withoutListing } from "../../support/fake-nft.ts";

const settings = { fastPath: true };
const nodeContext = testNodeContext({ settings });

/** What `apply` sends after its sync on a host with these interfaces, and its warnings. */
async function applied(names: readonly string[], given: object = {}) {
  const sent: Command[] = [];
  const nft = nftProgram({
    path: "nft",
    run: async (_path, _args, input) => {
      sent.push(...withoutListing(JSON.parse(input)).nftables);
      const ended = { startError: undefined, timedOut: false, tooMuchOutput: false, aborted: false };
      return { ...ended, signal: undefined, stdout: "", stderr: "", exitCode: 0, durationMs: 0 };
    },
  });
  const files = new FakeHostFiles({
    "/proc/net/dev": `\n\n${names.map((name) => `${name}: 1\n`).join("")}`,
    "/proc/net/route": "",
  });
  const tables = renderAll({}, nodeContext).state.ruleset;
  const warnings = await fastPath.afterApply?.(tables, { nft, files, settings: { ...settings, ...given } });
  return { sent, warnings };
}

describe("apply with the fast path", () => {
  test("adds the interfaces that exist to the flow tables of both families", async () => {
    const { sent, warnings } = await applied(["lo", "eth0", "veth1"], { fastPathInterfaces: ["eth*"] });
    const flowtable = { table: "nft-proxy", name: "fast-path", hook: "ingress", dev: ["eth0"] };
    expect(sent).toEqual([
      { add: { flowtable: { ...flowtable, family: "ip", prio: -1 } } },
      { add: { flowtable: { ...flowtable, family: "ip6", prio: 0 } } },
    ]);
    expect(warnings).toEqual([]);
  });

  test("warns of interfaces that do not fit", async () => {
    expect((await applied(Array.from({ length: 258 }, (_, n) => `veth${n}`))).warnings).toEqual([
      "a flow table has room for 256 interfaces; 2 get no fast path: choose some with --fast-path-interfaces",
    ]);
  });
});

test("explain gives the number of packets after which a connection takes the fast path", () => {
  const [context] = testNodeContext({ settings: { ...settings, fastPathAfter: 9 } });
  const [without] = testNodeContext();
  if (context === undefined || without === undefined) throw new Error("no context");
  const note = fastPath.words?.forwarded;
  expect(note?.(context, "udp")).toMatch(/^the connection takes it after about 9 packets of the client;/);
  expect(note?.(context, "sctp"), "which the kernel does not offload").toBeUndefined();
  expect(note?.(without, "tcp")).toBeUndefined();
  expect(note?.({ ...context, lacking: ["fast-path"] }, "tcp")).toBeUndefined();
});
