import { expect, test } from "vitest";
import { ofThisHost } from "../../../src/cli/kernel-now.ts";
import { renderAll } from "../../support/build.ts";
import { FakeHostFiles } from "../../support/fake-host-files.ts";

const { ruleset } = renderAll({}).state;

test("a host with IPv6 gets both tables", async () => {
  const files = new FakeHostFiles({ "/proc/net/if_inet6": "" });
  expect(Object.keys(await ofThisHost(ruleset, files))).toEqual(["ip", "ip6"]);
});

test("a host without IPv6 gets none for it", async () => {
  expect(Object.keys(await ofThisHost(ruleset, new FakeHostFiles({})))).toEqual(["ip"]);
});
