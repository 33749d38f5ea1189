import { readFile } from "node:fs/promises";
import { type HostFiles, hostFiles } from "../../kernel/host.ts";
import { type RunProcess, runProcess } from "../../kernel/process.ts";
import { getAnswer, type HttpAnswer } from "../http-answer.ts";

/** The doctor's access to a host, read-only. */
export interface DoctorHost {
  readonly files: HostFiles;
  /** A whole file as bytes. Rejects with the system's error. */
  bytes(path: string): Promise<Buffer>;
  readonly run: RunProcess;
  /** We run in a pod: programs are the image's, not the host's. */
  readonly isInPod: boolean;
  /** As {@link getAnswer}. */
  readonly get: (url: string) => Promise<HttpAnswer>;
}

/** The host that we run on. */
export const doctorHost: DoctorHost = {
  files: hostFiles,
  bytes: (path) => readFile(path),
  run: runProcess,
  isInPod: process.env.KUBERNETES_SERVICE_HOST !== undefined,
  get: getAnswer,
};
