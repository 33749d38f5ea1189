import type { IncomingHttpHeaders } from "node:http";
import { messageOf } from "../../base/errors.ts";
import { isRecord, parsedJson } from "../../base/text.ts";
import type { SourceErrorKind } from "../source.ts";

/** The reason why a list or a watch failed. It is counted and logged, and never printed as an error. */
export class ApiFailure extends Error {
  readonly kind: SourceErrorKind;
  /** A watch cannot continue from the known resourceVersion: a new list is needed. */
  readonly relist: boolean;
  /** Milliseconds of the server's Retry-After, 0 for none. */
  readonly retryAfter: number;
  /**
   * The HTTP status, 0 for none. Of the kind `server`, 404 means that the server does not have the resource,
   * 400 that it does not understand the request, and 504 that its state is older than the requested one.
   */
  readonly status: number;

  constructor(
    kind: SourceErrorKind,
    message: string,
    details: Partial<Pick<ApiFailure, "relist" | "retryAfter" | "status" | "cause">> = {},
  ) {
    super(message, { cause: details.cause });
    this.kind = kind;
    this.relist = details.relist ?? false;
    this.retryAfter = details.retryAfter ?? 0;
    this.status = details.status ?? 0;
  }
}

/**
 * Converts anything thrown by a request to an ApiFailure: of kind `parse` for malformed JSON, else
 * `connection`.
 */
export function asApiFailure(error: unknown): ApiFailure {
  if (error instanceof ApiFailure) return error;
  const kind = error instanceof SyntaxError ? "parse" : "connection";
  return new ApiFailure(kind, messageOf(error), { cause: error });
}

/**
 * Returns the failure for an answer other than 2xx.
 * @param text the body, usually a metav1.Status
 * @param now milliseconds since 1970, for a Retry-After that is a date
 */
export function failureOfAnswer(
  status: number,
  headers: IncomingHttpHeaders,
  text: string,
  now: number,
): ApiFailure {
  const message = `HTTP ${status}: ${statusMessage(text)}`;
  const retryAfter = parseRetryAfter(headers["retry-after"], now);
  // Every other 4xx rejects the request itself, and only its resourceVersion differs from one that was
  // accepted.
  const relist = status >= 400 && status < 500 && ![401, 403, 408, 429].includes(status);
  return new ApiFailure(kindOf(status), message, { relist, retryAfter, status });
}

/** Returns the failure for an ERROR event of a watch. `object` is a metav1.Status. */
export function failureOfErrorEvent(object: unknown): ApiFailure {
  const status = asStatus(object);
  const seconds = Number(status.details?.retryAfterSeconds ?? 0);
  const expired = status.code === 410 || status.reason === "Expired" || status.reason === "Gone";
  const kind = expired ? "gone" : kindOf(Number(status.code ?? 500));
  return new ApiFailure(kind, `the watch reported: ${String(status.message ?? "an error")}`, {
    // An overloaded server rejects the watch, and not its resourceVersion: a list would add to the load.
    relist: kind !== "throttled",
    retryAfter: seconds > 0 ? seconds * 1000 : 0,
  });
}

/**
 * Reads a Retry-After header, which holds seconds or a date.
 * Source: https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3
 * @returns milliseconds; 0 when the header is absent, malformed or in the past
 */
export function parseRetryAfter(value: string | undefined, now: number): number {
  if (value === undefined) return 0;
  const milliseconds = /^\d+$/.test(value.trim()) ? Number(value) * 1000 : Date.parse(value) - now;
  return Number.isFinite(milliseconds) && milliseconds > 0 ? milliseconds : 0;
}

const KINDS: Readonly<Partial<Record<number, SourceErrorKind>>> = {
  401: "unauthorized",
  403: "forbidden",
  410: "gone",
  429: "throttled",
};

/** @param status of HTTP */
function kindOf(status: number): SourceErrorKind {
  return KINDS[status] ?? "server";
}

interface Status {
  readonly code?: unknown;
  readonly reason?: unknown;
  readonly message?: unknown;
  readonly details?: { readonly retryAfterSeconds?: unknown };
}

function asStatus(value: unknown): Status {
  return isRecord(value) ? value : {};
}

function statusMessage(text: string): string {
  const { message } = asStatus(parsedJson(text));
  // Without a Status, a program in front of the API server answered: the beginning of its body is quoted.
  return typeof message === "string" ? message : text.slice(0, 200).trim() || "no message";
}
