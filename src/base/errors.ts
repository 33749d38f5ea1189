/** The kind of an error, a stable word for scripts and tests. */
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
  /** How the user can solve the problem, one sentence. */
  readonly hint?: string | undefined;
  /** The underlying error, for logs at debug level. */
  readonly cause?: unknown;
  /** Evidence for the message: file and path, stderr, the transaction. Short values, as they are printed. */
  readonly evidence?: Readonly<Record<string, string>>;
}

/**
 * A failure that a user may encounter. Printed as message, evidence and hint, never with a stack. Impossible
 * states throw plain errors instead.
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

/** Returns an {@link AppError} with the code BAD_ARGUMENT. */
export function badArgument(message: string, details?: ErrorDetails): AppError {
  return new AppError("BAD_ARGUMENT", message, details);
}

/**
 * Returns the message of any thrown value, without its stack and never "". If a connection fails at each
 * address of a name, Node throws an AggregateError without a message of its own.
 */
export function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error) || "unknown error";
  if (error.message !== "") return error.message;
  return error instanceof AggregateError ? error.errors.map(messageOf).join("; ") || error.name : error.name;
}

/** The evidence and the hint of an {@link AppError}, as fields of a line in the log; {} for other errors. */
export function evidenceOf(error: unknown): Readonly<Record<string, string | undefined>> {
  return error instanceof AppError ? { ...error.evidence, hint: error.hint } : {};
}

/**
 * Makes an unhandled member of a closed union a compile error. @throws Error if such a value occurs at run
 * time
 */
export function assertNever(value: never): never {
  throw new Error(`unhandled case: ${JSON.stringify(value)}`);
}
