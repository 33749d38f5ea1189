import { describe, expect, test } from "vitest";
import {
  emptyNamespaceNotices,
  parseService,
  unknownServiceNotices,
} from "../../../src/cli/argument-values.ts";
import { serviceName } from "../../../src/model/ids.ts";

const NAMES = [serviceName("shop", "cart"), serviceName("shop", "redis"), serviceName("test", "redis")];

describe("unknownServiceNotices", () => {
  test.each([
    ["shop", "cart", []],
    ["shop", "carts", ["warning: there is no Service shop/carts: did you mean shop/cart?"]],
    [
      "default",
      "redis",
      ["warning: there is no Service default/redis: did you mean shop/redis or test/redis?"],
    ],
    ["test", "frontend", ["warning: there is no Service test/frontend: in that namespace: test/redis"]],
    ["nowhere", "frontend", ["warning: there is no Service nowhere/frontend"]],
  ])("for %s/%s are %j", (namespace, name, notices) => {
    expect(unknownServiceNotices({ service: serviceName(namespace, name) }, NAMES)).toEqual(notices);
  });

  test("are none without a Service", () => {
    expect(unknownServiceNotices(undefined, NAMES)).toEqual([]);
  });
});

test("emptyNamespaceNotices warns of a namespace without Services, and names the nearest one", () => {
  const warning = "warning: there is no Service in namespace shp: did you mean shop?";
  expect(emptyNamespaceNotices("shp", NAMES)).toEqual([warning]);
  expect([...emptyNamespaceNotices("shop", NAMES), ...emptyNamespaceNotices(undefined, NAMES)]).toEqual([]);
});

test.each([
  ["shop/cart", undefined, "shop/cart", undefined],
  ["cart:http", "shop", "shop/cart", "http"],
  ["svc/cart", "shop", "shop/cart", undefined],
  ["service/cart:80", "shop", "shop/cart", "80"],
  ["services/cart", undefined, "default/cart", undefined],
  ["svc", "shop", "shop/svc", undefined],
  ["cart.shop.svc.cluster.local:80", undefined, "shop/cart", "80"],
  ["cart.shop:http", "other", "shop/cart", "http"],
])("the argument %j in the namespace %j names the Service %s", (text, namespace, service, port) => {
  expect(parseService(text, namespace)).toEqual({
    service,
    ...(port === undefined ? {} : { port }),
  });
});
