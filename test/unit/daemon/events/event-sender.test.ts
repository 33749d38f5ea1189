import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, expect, test } from "vitest";
import { eventSender, Gone } from "../../../../src/daemon/events/event-recorder.ts";
import { ApiClient } from "../../../../src/kube/client/client.ts";

let server: Server;
let client: ApiClient;
let answer = `{"kind":"Status"}`;
let status = 201;
const requests: unknown[] = [];

beforeEach(async () => {
  status = 201;
  requests.length = 0;
  server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += String(chunk);
    requests.push([request.method, request.url, request.headers["content-type"], JSON.parse(body)]);
    response.writeHead(status).end(answer);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const connection = {
    name: "",
    server: new URL(`http://127.0.0.1:${port}`),
    credentials: async () => ({}),
    isCurrent: async () => true,
  };
  client = new ApiClient({ connect: async () => connection, userAgent: "test" });
});

afterEach(() => {
  client.close();
  server.close();
  server.closeAllConnections();
});

test("eventSender creates an Event with JSON, and changes it with a merge patch", async () => {
  const send = eventSender(client);
  await send("POST", "/apis/events", { a: 1 });
  await send("PATCH", "/apis/events/x", { b: 2 });
  expect(requests).toEqual([
    ["POST", "/apis/events", "application/json", { a: 1 }],
    ["PATCH", "/apis/events/x", "application/merge-patch+json", { b: 2 }],
  ]);
});

test("an Event that another node has already created counts as created", async () => {
  status = 409;
  const send = eventSender(client);
  await send("POST", "/apis/events", {});
  await expect(send("PATCH", "/apis/events/x", {})).rejects.toThrow("409");
});

test("eventSender rejects with the status if the API server refuses an Event", async () => {
  status = 403;
  await expect(eventSender(client)("POST", "/apis/events", {})).rejects.toThrow("POST /apis/events: 403");
});

test.each([
  [404, '{"message":"namespaces \\"shop\\" not found"}', true],
  [403, '{"message":"unable to create new content in namespace shop because it is being terminated"}', true],
  [403, '{"message":"User \\"system:serviceaccount\\" cannot create resource \\"events\\""}', false],
])("an Event refused with %i %s is no fault: %s", async (code, text, isGone) => {
  [status, answer] = [code, text];
  const error = await eventSender(client)("POST", "/apis/events", {}).catch((caught) => caught);
  expect(error instanceof Gone).toBe(isGone);
});
