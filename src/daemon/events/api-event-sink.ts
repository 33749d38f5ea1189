import { type ApiClient, readText } from "../../kube/client/client.ts";
import type { EventSink } from "./event-recorder.ts";

/** How long an Event may take, milliseconds: those behind it wait. */
const TIMEOUT = 10_000;

/** An object of this name exists: all nodes give the same name to an Event that they find alike. */
const CONFLICT = 409;

/** Sends Events through the client that the sources use, so that they need no connection of their own. */
export function apiEventSink(client: ApiClient): EventSink {
  return {
    async send(method, path, body) {
      const signal = AbortSignal.timeout(TIMEOUT);
      const answer = await client.request({ method, path, body, signal });
      const text = await readText(answer.body);
      const isThere = method === "POST" && answer.status === CONFLICT;
      if (answer.status >= 300 && !isThere)
        throw new Error(`${method} ${path}: ${answer.status} ${text.slice(0, 200)}`);
    },
  };
}
