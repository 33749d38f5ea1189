import type { FailureLog } from "../../src/base/failure-log.ts";

/** A failure log for what does not fail. */
export const NO_FAILURES: Pick<FailureLog, "add" | "end"> = { add: () => {}, end: () => {} };
