import { type ApiClient, readText } from "../../kube/client/client.ts";
import type { EventSink } from "./event-recorder.ts";

/** How long an Event may take, milliseconds: those behind it wait. */
const TIMEOUT = 10_000;

/** Sends Events through the client that the sources use, so that they need no connection of their own. */
export function apiEventSink(client: ApiClient): EventSink {
  return {
    async send(method, path, body) {
      const signal = AbortSignal.timeout(TIMEOUT);
      const answer = await client.request({ method, path, body, signal });
      const text = await readText(answer.body);
      if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${text.slice(0, 200)}`);
    },
  };
}
