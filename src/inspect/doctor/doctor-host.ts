import { readFile } from "node:fs/promises";
import { type HostFiles, hostFiles } from "../../kernel/host.ts";
import { type RunProcess, runProcess } from "../../kernel/process.ts";
import type { HealthAnswer } from "./daemon-health.ts";

/** The doctor's access to a host, read-only. */
export interface DoctorHost {
  readonly files: HostFiles;
  /** A whole file as bytes. Rejects with the system's error. */
  bytes(path: string): Promise<Buffer>;
  readonly run: RunProcess;
  /** We run in a pod: programs are the image's, not the host's. */
  readonly isInPod: boolean;
  /** An HTTP GET of an address on this host. Rejects when there is no answer within two seconds. */
  get(url: string): Promise<HealthAnswer>;
}

const ANSWER_WITHIN_MS = 2000;

/** The host that we run on. */
export const doctorHost: DoctorHost = {
  files: hostFiles,
  bytes: (path) => readFile(path),
  run: runProcess,
  isInPod: process.env.KUBERNETES_SERVICE_HOST !== undefined,
  get: async (url) => {
    const answer = await fetch(url, { signal: AbortSignal.timeout(ANSWER_WITHIN_MS) });
    return { status: answer.status, body: await answer.text() };
  },
};
