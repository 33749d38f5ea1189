import { socketText } from "../base/text.ts";
import { canonicalAddress } from "../model/ip.ts";
import type { ListenAddress } from "./options.ts";

const PORT = /^[1-9]\d{0,4}$/;

/**
 * Parses `10.0.0.1`, `10.0.0.1:80`, `fd00::1` or `[fd00::1]:80`.
 * @param defaultPort the port if none is given
 * @returns undefined if the text is none of these, or the port is not 1..65535
 */
export function parseListenAddress(text: string, defaultPort: number): ListenAddress | undefined {
  const bare = canonicalAddress(text);
  if (bare !== undefined) return { address: bare, port: defaultPort };
  const [, bracketed, plain, portText = ""] = /^(?:\[([^\]]*)\]|([^:]*)):(.*)$/.exec(text) ?? [];
  const address = bracketed === undefined ? canonicalAddress(plain ?? "", "ip") : canonicalAddress(bracketed);
  const port = PORT.test(portText) ? Number(portText) : 0;
  return address === undefined || port < 1 || port > 65_535 ? undefined : { address, port };
}

/** Writes `10.0.0.1:80` or `[fd00::1]:80`. */
export function formatListenAddress({ address, port }: ListenAddress): string {
  return socketText(address, port);
}
