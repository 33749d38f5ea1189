import { expect, test } from "vitest";
import { oncePerObject } from "../../../src/base/once-per-object.ts";

test("the value of an object is made once, even if it is undefined", () => {
  const made: string[] = [];
  const upperOf = oncePerObject(({ name }: { readonly name: string }) => {
    made.push(name);
    return name === "" ? undefined : name.toUpperCase();
  });
  const [web, none] = [{ name: "web" }, { name: "" }];
  expect([upperOf(web), upperOf(none), upperOf(web), upperOf(none)]).toEqual([
    "WEB",
    undefined,
    "WEB",
    undefined,
  ]);
  expect(upperOf({ ...web }), "an equal object has its own").toBe("WEB");
  expect(made).toEqual(["web", "", "web"]);
});
