import type { IncomingHttpHeaders } from "node:http";
import { messageOf } from "../../base/errors.ts";
import type { SourceErrorKind } from "../source.ts";

/** The optional parts of an {@link ApiFailure}. */
export interface ApiFailureDetails {
  /** What we have cannot be continued from: list again. */
  readonly relist?: boolean;
  /** Milliseconds that the server asked us to wait, 0 for none. */
  readonly retryAfter?: number;
  /** The resource is not served (HTTP 404). */
  readonly absent?: boolean;
  readonly cause?: unknown;
}

/** Why a list or a watch came to an end before its time. Never reaches a user as an error: it is counted and logged. */
export class ApiFailure extends Error {
  readonly kind: SourceErrorKind;
  readonly relist: boolean;
  readonly retryAfter: number;
  readonly absent: boolean;

  constructor(kind: SourceErrorKind, message: string, details: ApiFailureDetails = {}) {
    super(message, { cause: details.cause });
    this.kind = kind;
    this.relist = details.relist ?? false;
    this.retryAfter = details.retryAfter ?? 0;
    this.absent = details.absent ?? false;
  }
}

/** Anything thrown while talking to the API server, as an ApiFailure; what is not one already is the connection's fault. */
export function asApiFailure(error: unknown): ApiFailure {
  return error instanceof ApiFailure ? error : new ApiFailure("connection", messageOf(error), { cause: error });
}

/**
 * The failure that an answer other than 2xx means. `text` is its body, usually a metav1.Status; `now` (milliseconds
 * since 1970) turns a Retry-After that is a date into a wait.
 */
export function failureOfAnswer(status: number, headers: IncomingHttpHeaders, text: string, now: number): ApiFailure {
  const message = `HTTP ${status}: ${statusMessage(text)}`;
  const retryAfter = parseRetryAfter(headers["retry-after"], now);
  const kind = kindOfCode(status);
  // Other 4xx refuse what we asked for, and what differs between requests is the version to continue from.
  const relist = status >= 400 && status < 500 && ![401, 403, 408, 429].includes(status);
  return new ApiFailure(kind, message, { relist, retryAfter, absent: status === 404 });
}

/** The failure that an ERROR event of a watch means; `object` is a metav1.Status. */
export function failureOfErrorEvent(object: unknown): ApiFailure {
  const status = asStatus(object);
  const seconds = Number(status.details?.retryAfterSeconds ?? 0);
  const expired = status.code === 410 || status.reason === "Expired" || status.reason === "Gone";
  const kind = expired ? "gone" : kindOfCode(Number(status.code ?? 500));
  return new ApiFailure(kind, `the watch reported: ${String(status.message ?? "an error")}`, {
    relist: true,
    retryAfter: seconds > 0 ? seconds * 1000 : 0,
  });
}

/** Milliseconds of a Retry-After header (RFC 9110 section 10.2.3: seconds or a date), 0 if absent or nonsense. */
export function parseRetryAfter(value: string | undefined, now: number): number {
  if (value === undefined) return 0;
  const milliseconds = /^\d+$/.test(value.trim()) ? Number(value) * 1000 : Date.parse(value) - now;
  return Number.isFinite(milliseconds) && milliseconds > 0 ? milliseconds : 0;
}

function kindOfCode(code: number): SourceErrorKind {
  switch (code) {
    case 401:
      return "unauthorized";
    case 403:
      return "forbidden";
    case 410:
      return "gone";
    case 429:
      return "throttled";
    default:
      return "server";
  }
}

interface Status {
  readonly code?: unknown;
  readonly reason?: unknown;
  readonly message?: unknown;
  readonly details?: { readonly retryAfterSeconds?: unknown };
}

function asStatus(value: unknown): Status {
  return typeof value === "object" && value !== null ? value : {};
}

function statusMessage(text: string): string {
  try {
    const { message } = asStatus(JSON.parse(text));
    if (typeof message === "string") return message;
  } catch {
    // Not a Status: something in front of the API server answered. Its first words are the best there is.
  }
  return text.slice(0, 200).trim() || "no message";
}
