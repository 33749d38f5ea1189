import { AppError, type ErrorCode } from "../base/errors.ts";

/** A value that cannot be used. */
export interface ConfigDiagnostic {
  /** The flag (`--cluster-cidr`), or the field's path in the file (`conntrack.min`, `nodePortAddresses[1]`). */
  readonly subject: string;
  /** What is wrong with it, without the subject. */
  readonly reason: string;
}

/** Something that was given and has no effect. */
export interface ConfigWarning {
  /** As in {@link ConfigDiagnostic}. */
  readonly subject: string;
  /** A whole sentence, with the subject. */
  readonly message: string;
}

/** Warns that what was given is ignored. */
export function ignoredWarning(subject: string, reason: string): ConfigWarning {
  return { subject, message: `${subject} is ignored: ${reason}` };
}

/** Does nothing when there are no faults, otherwise throws one error that lists them all. */
export function throwFaults(code: ErrorCode, where: string, faults: readonly ConfigDiagnostic[]): void {
  if (faults.length === 0) return;
  const evidence = new Map<string, string>();
  for (const { subject, reason } of faults) {
    const known = evidence.get(subject);
    evidence.set(subject, known === undefined ? reason : `${known}; ${reason}`);
  }
  throw new AppError(code, `${where}: ${evidence.size === 1 ? "a value is" : `${evidence.size} values are`} wrong`, {
    evidence: Object.fromEntries(evidence),
  });
}
