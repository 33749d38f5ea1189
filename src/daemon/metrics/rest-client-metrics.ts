import { Counter, Histogram, type Registry } from "prom-client";
import type { ApiRequestOutcome } from "../../kube/client/client.ts";

/** The metrics of requests to the API server, as client-go names them. */
export interface RestClientMetrics {
  /** `code` is an HTTP status, or `<error>` when there was no answer. */
  readonly requests: Counter<"code" | "method" | "host">;
  /** Seconds from sending a request to the headers of its answer; `verb` is the HTTP method. */
  readonly duration: Histogram<"verb" | "host">;
}

/** client-go's buckets (k8s.io/component-base/metrics/prometheus/restclient). */
const BUCKETS = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60];

/** Makes the metrics above in `registry`. */
export function createRestClientMetrics(registry: Registry): RestClientMetrics {
  const registers = [registry];
  return {
    requests: new Counter({
      name: "rest_client_requests_total",
      help: "Requests to the API server by status code, method and host",
      labelNames: ["code", "method", "host"],
      registers,
    }),
    duration: new Histogram({
      name: "rest_client_request_duration_seconds",
      help: "Time to the answer of a request to the API server",
      labelNames: ["verb", "host"],
      buckets: BUCKETS,
      registers,
    }),
  };
}

/** Counts and times one request. */
export function countRequest(
  { requests, duration }: RestClientMetrics,
  { method, host, code, seconds }: ApiRequestOutcome,
): void {
  requests.inc({ code, method, host });
  duration.observe({ verb: method, host }, seconds);
}
