import type { IncomingMessage, ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { gzipSync } from "node:zlib";
import type { InjectedFault } from "./faults.ts";

/** Answers with JSON. */
export function answerJson(
  response: ServerResponse,
  status: number,
  body: unknown,
  headers: Record<string, string> = {},
): void {
  response.writeHead(status, { "content-type": "application/json", ...headers });
  response.end(JSON.stringify(body));
}

/** The number of objects that are encoded at once. */
const NO_WAIT = 100;

/** Answers with a list, encoded while it is sent, as API servers do from Kubernetes 1.33 on (KEP-5116). */
export function answerList(response: ServerResponse, frame: object, items: readonly unknown[]): void {
  response.writeHead(200, { "content-type": "application/json" });
  Readable.from(listText(frame, items)).pipe(response);
}

function* listText(frame: object, items: readonly unknown[]): Generator<string> {
  yield JSON.stringify({ ...frame, items: [] }).slice(0, -"]}".length);
  for (let from = 0; from < items.length; from += NO_WAIT) {
    const text = JSON.stringify(items.slice(from, from + NO_WAIT)).slice(1, -1);
    yield from === 0 ? text : `,${text}`;
  }
  yield "]}";
}

/** Answers with JSON, compressed at an API server's level. */
export function answerZipped(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { "content-type": "application/json", "content-encoding": "gzip" });
  response.end(gzipSync(JSON.stringify(body), { level: 1 }));
}

/** Returns the metav1.Status of a failure. */
export function statusObject(code: number): object {
  const message = `the stub answers ${code}`;
  return { kind: "Status", apiVersion: "v1", status: "Failure", message, reason: REASONS[code] ?? "", code };
}

const REASONS: Readonly<Record<number, string>> = {
  401: "Unauthorized",
  403: "Forbidden",
  404: "NotFound",
  410: "Expired",
  429: "TooManyRequests",
  500: "InternalError",
};

/** Answers a request with a fault. */
export function answerFault(response: ServerResponse, fault: InjectedFault): void {
  switch (fault.kind) {
    case "status": {
      const headers: Record<string, string> =
        fault.retryAfter === undefined ? {} : { "retry-after": fault.retryAfter };
      answerJson(response, fault.status, statusObject(fault.status), headers);
      return;
    }
    case "reset":
      response.socket?.resetAndDestroy();
      return;
    case "hang":
      return;
    case "cut":
      response.writeHead(200, { "content-type": "application/json" });
      response.write(fault.body, () => response.socket?.resetAndDestroy());
      return;
    case "body":
      response.writeHead(200, { "content-type": "application/json" });
      response.end(fault.body);
      return;
    case "stall":
      response.writeHead(200, { "content-type": "application/json" });
      response.write(fault.body);
      return;
  }
}

/** Reads the body of a request as JSON. */
export async function readJson(request: IncomingMessage): Promise<unknown> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of request) chunks.push(chunk);
  return JSON.parse(Buffer.concat(chunks).toString("utf8"));
}
