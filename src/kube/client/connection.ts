import type { SecureContextOptions } from "node:tls";
import { AppError } from "../../base/errors.ts";

/** Credentials for one request: headers, and TLS settings that identify the client and verify the server. */
export interface Credentials {
  readonly headers: Readonly<Record<string, string>>;
  readonly tls: Pick<SecureContextOptions, "ca" | "cert" | "key"> & {
    readonly rejectUnauthorized?: boolean;
    readonly servername?: string;
  };
}

/** An API server's address and credentials. */
export interface Connection {
  readonly server: URL;
  /** The http, https or socks5 proxy through which the server is reached; undefined for none. */
  readonly proxy?: URL | undefined;
  /**
   * Reads the credentials. Called for every request: token, CA and certificate files are replaced over time, and
   * requests are rare (a watch lasts minutes).
   * @throws AppError UNREADABLE_INPUT for a file that could never be read
   */
  credentials(): Promise<Credentials>;
}

/**
 * Parses an API server's URL.
 * @param from what the message of the error calls the text
 * @throws AppError BAD_CONFIG for anything but an http or https URL
 */
export function parseServer(text: string, from: string): URL {
  if (!URL.canParse(text) || !/^https?:\/\//.test(text))
    throw new AppError("BAD_CONFIG", `${from} is not an http or https URL`, { evidence: { value: text } });
  return new URL(text);
}

/** Returns the value of a header with a user and password. Source: https://www.rfc-editor.org/rfc/rfc7617 */
export function basicAuthorization(user: string, password: string): string {
  return `Basic ${Buffer.from(`${user}:${password}`).toString("base64")}`;
}
