import { AppError, type ErrorCode } from "../base/errors.ts";
import { groupBy } from "../base/group-by.ts";

/** An invalid value. */
export interface InvalidValue {
  /**
   * The flag (`--cluster-cidr`), or the field's path in the file (`conntrack.min`, `nodePortAddresses[1]`).
   */
  readonly subject: string;
  /** The reason, as the predicate of a sentence about the subject: `must be a CIDR`. */
  readonly reason: string;
}

/** A given value that has no effect, or another effect than in kube-proxy. */
export interface ConfigWarning {
  /** As in {@link InvalidValue}. */
  readonly subject: string;
  /** A whole sentence, with the subject. */
  readonly message: string;
}

/** Returns the warning that a given value is ignored. */
export function ignoredWarning(subject: string, reason: string): ConfigWarning {
  return { subject, message: `${subject} is ignored: ${reason}` };
}

/**
 * Throws one error that lists all invalid values, unless there are none.
 * @param where the file or command line that has the values, for the message
 * @param hint what else may be wrong, "" for nothing
 * @throws AppError of `code` when there are any; its evidence has a reason for each subject
 */
export function refuseInvalid(
  code: ErrorCode,
  where: string,
  values: readonly InvalidValue[],
  hint = "",
): void {
  if (values.length === 0) return;
  const bySubject = groupBy(values, ({ subject }) => subject);
  const evidence = Array.from(bySubject, ([subject, all]) => [
    subject,
    all.map(({ reason }) => reason).join("; "),
  ]);
  const what = evidence.length === 1 ? "a value is" : `${evidence.length} values are`;
  throw new AppError(code, `${where}: ${what} invalid`, {
    evidence: Object.fromEntries(evidence),
    ...(hint !== "" && { hint }),
  });
}
