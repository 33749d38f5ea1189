import { describe, expect, test } from "vitest";
import { apiDecoders } from "../../../../src/kube/decode/decoders.ts";
import { apiService } from "../../../support/api-objects.ts";

describe("the decoders of API objects", () => {
  const told: string[] = [];
  const { services } = apiDecoders((object, diagnostics) => {
    told.push(...diagnostics.map(({ path }) => `${object} ${path}`));
  });
  const web = apiService("web", { clusterIP: "10.96.0.1" });

  test("report a part that is excluded, with the object's name", () => {
    const annotations = { "nft-proxy.io/scheduler": "fastest" };
    expect(services({ ...web, metadata: { ...web.metadata, annotations } })).toMatchObject({
      ignoredAnnotations: [{ annotation: "nft-proxy.io/scheduler" }],
    });
    expect(told.splice(0)).toEqual(['Service shop/web metadata.annotations["nft-proxy.io/scheduler"]']);
  });

  test("report nothing about a valid object", () => {
    expect(services(web)).toMatchObject({ name: "shop/web" });
    expect(told).toEqual([]);
  });

  test("give undefined for an object that is not nft-proxy's", () => {
    expect(services(apiService("headless", { clusterIP: "None" }))).toBeUndefined();
  });

  test("throw the reason why an object is invalid", () => {
    expect(() => services({ ...web, spec: 7 })).toThrow(expect.objectContaining({ code: "REFUSED_INPUT" }));
  });
});
