import { expect, test } from "vitest";
import { ejectedText } from "../../../src/model/ejected-endpoint.ts";
import { named } from "../../support/build.ts";

test.each([
  [{ reason: "refused 5 of 5 new connections" }, "ejected 4 s ago: refused 5 of 5 new connections"],
  [{}, "ejected before the daemon started 4 s ago"],
])("an endpoint with %j is shown with the time and the reason", (reason, text) => {
  const endpoint = {
    family: "ip" as const,
    target: "10.0.0.1 . 80",
    services: [named("shop/web")],
    at: 1000,
  };
  expect(ejectedText({ ...endpoint, ...reason }, 5000)).toBe(text);
});
