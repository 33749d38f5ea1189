import { expect, test } from "vitest";
import { affinityEntry } from "../../../../src/inspect/load/load-explain-input.ts";
import type { SetSpec } from "../../../../src/nft/ast/ruleset.ts";
import type { ListedElement } from "../../../../src/nft/elements.ts";

const CLIENT = "10.0.0.1";
const ID = 0xc000_4000;
const SPEC: SetSpec = {
  name: "affinity-clients",
  key: ["classid", "ipv4_addr"],
  value: ["classid"],
  dynamic: true,
  counter: false,
};

/** A map with one element. */
function holding(element: Partial<ListedElement> & Pick<ListedElement, "key">) {
  return {
    element: async (family: string, spec: SetSpec, key: string) =>
      family === "ip" && spec === SPEC && key === element.key
        ? { value: String(0xc000_5234), ...element }
        : undefined,
  };
}

test.each([
  [598_824, "9m58s"],
  [600_000, "10m"],
  [10_921_000, "3h2m1s"],
  [824, "0s"],
])(
  "affinityEntry gives the remaining time of an entry in whole seconds (%i ms)",
  async (expiresMs, expires) => {
    const key = `${ID} . ${CLIENT}`;
    const tables = holding({ key, timeoutMs: 600_000, expiresMs });
    expect(await affinityEntry(tables, "ip", SPEC, CLIENT, ID)).toEqual({
      family: "ip",
      map: "affinity-clients",
      key,
      value: String(0xc000_5234),
      expires,
    });
  },
);

test("affinityEntry is undefined for a client without an entry", async () => {
  const tables = holding({ key: `${ID} . 10.0.0.2` });
  expect(await affinityEntry(tables, "ip", SPEC, CLIENT, ID)).toBeUndefined();
});

test("affinityEntry rejects as the reader does", async () => {
  const tables = { element: () => Promise.reject(new Error("socat failed")) };
  await expect(affinityEntry(tables, "ip", SPEC, CLIENT, ID)).rejects.toThrow("socat failed");
});
