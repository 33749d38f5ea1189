import type { SecureContextOptions } from "node:tls";
import { AppError } from "../../base/errors.ts";

/** How to prove who we are, and to know the server, in one request. */
export interface Credentials {
  readonly headers: Readonly<Record<string, string>>;
  readonly tls: Pick<SecureContextOptions, "ca" | "cert" | "key"> & {
    readonly rejectUnauthorized?: boolean;
    readonly servername?: string;
  };
}

/** An API server and the means to be let in. */
export interface Connection {
  readonly server: URL;
  /**
   * Read anew for every request: token, CA and certificate files are replaced while we run, and requests are few
   * (a watch lasts minutes).
   */
  credentials(): Promise<Credentials>;
}

/** Reads an API server's URL. Throws AppError BAD_CONFIG, whose message names `from`. */
export function parseServer(text: string, from: string): URL {
  if (!URL.canParse(text) || !/^https?:\/\//.test(text))
    throw new AppError("BAD_CONFIG", `${from} is not an http or https URL`, { evidence: { value: text } });
  return new URL(text);
}
