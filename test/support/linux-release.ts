import { release } from "node:os";

const [major = 0, minor = 0] = release().split(".").map(Number);

/** Whether the kernel is at least as new as Linux 5.11, and tells the TCP state of a deleted connection. */
export const TELLS_STATE_OF_DELETED: boolean = major > 5 || (major === 5 && minor >= 11);
