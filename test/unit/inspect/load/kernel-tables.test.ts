import { expect, test } from "vitest";
import { tablesOfHost } from "../../../../src/inspect/load/kernel-tables.ts";
import { renderAll } from "../../../support/build.ts";
import { FakeHostFiles } from "../../../support/fake-host-files.ts";

const { ruleset } = renderAll({}).state;

test("tablesOfHost keeps both tables on a host with IPv6", async () => {
  const files = new FakeHostFiles({ "/proc/net/if_inet6": "" });
  expect(Object.keys(await tablesOfHost(ruleset, files))).toEqual(["ip", "ip6"]);
});

test("tablesOfHost drops the IPv6 table on a host without IPv6", async () => {
  expect(Object.keys(await tablesOfHost(ruleset, new FakeHostFiles({})))).toEqual(["ip"]);
});
