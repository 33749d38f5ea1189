import { expect, test } from "vitest";
import { emptyNamespaceNotices, parseService } from "../../../src/cli/argument-values.ts";
import { serviceName } from "../../../src/model/ids.ts";

const NAMES = [serviceName("shop", "cart"), serviceName("shop", "redis"), serviceName("test", "redis")];

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
