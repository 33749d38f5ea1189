import { AppError } from "../../../src/base/errors.ts";

/** The AppError that `run` throws; fails when it throws none, or anything else. */
export function errorOf(run: () => unknown): AppError {
  try {
    run();
  } catch (error) {
    if (error instanceof AppError) return error;
    throw error;
  }
  throw new Error("nothing was thrown");
}

/** A KubeProxyConfiguration with these lines of YAML. */
export function fileWith(lines: string): string {
  return `apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n${lines}`;
}

/** The field or flag that a warning is about: each begins with it. */
export function subjectOf(warning: string): string {
  return warning.split(/:? /, 1)[0] ?? "";
}
