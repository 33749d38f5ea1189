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

/** Returns the warning that a given value is ignored. @param subject as in {@link InvalidValue} */
export function ignoredWarning(subject: string, reason: string): string {
  return `${subject} is ignored: ${reason}`;
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
