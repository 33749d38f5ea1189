/** The kind of an error: a word that scripts and tests can rely on. */
export type ErrorCode =
  | "BAD_ARGUMENT"
  | "BAD_CONFIG"
  | "UNREADABLE_INPUT"
  | "REFUSED_INPUT"
  | "NFT_MISSING"
  | "NFT_FEATURE"
  | "NFT_REFUSED"
  | "NFT_FAILED"
  | "NFT_TIMEOUT"
  | "NFT_OUTPUT"
  | "INVALID_TRANSACTION"
  | "API_UNAVAILABLE"
  | "HOST";

/** The optional parts of an {@link AppError}. */
export interface ErrorDetails {
  /** How the reader can solve the problem, one sentence. */
  readonly hint?: string;
  /** The error underneath, kept for logs at debug level. */
  readonly cause?: unknown;
  /** The facts behind the message: file and path, stderr, the transaction. Short values; they are printed. */
  readonly evidence?: Readonly<Record<string, string>>;
}

/**
 * A failure that a user can meet: printed as message, evidence and hint, never with a stack.
 * Impossible states throw plain errors instead.
 */
export class AppError extends Error {
  readonly code: ErrorCode;
  readonly hint: string | undefined;
  readonly evidence: Readonly<Record<string, string>>;

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.name = "AppError";
    this.code = code;
    this.hint = details.hint;
    this.evidence = details.evidence ?? {};
  }
}

/**
 * Returns the message of anything that was thrown, without its stack: never "". Node reports a connection that failed at
 * each of a name's addresses as an AggregateError without a message of its own.
 */
export function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error) || "unknown error";
  if (error.message !== "") return error.message;
  return error instanceof AggregateError ? error.errors.map(messageOf).join("; ") || error.name : error.name;
}

/** Makes an unhandled member of a closed union a compile error. @throws Error if such a value arrives nevertheless */
export function assertNever(value: never): never {
  throw new Error(`unhandled case: ${JSON.stringify(value)}`);
}
