import { socketText } from "../base/text.ts";
import { canonicalAddress } from "../model/ip.ts";
import type { ListenAddress } from "./options.ts";

const PORT = /^(?:0|[1-9]\d{0,4})$/;

/** The text of a server that is switched off. */
const OFF: ListenAddress = { address: "0.0.0.0", port: 0 };

/**
 * Parses `10.0.0.1`, `10.0.0.1:80`, `fd00::1` or `[fd00::1]:80`.
 * @param defaultPort the port if none is given
 * @returns the address, with port 0 for a server that is switched off; undefined if the text is none of these
 */
export function parseListenAddress(text: string, defaultPort: number): ListenAddress | undefined {
  const bare = canonicalAddress(text);
  if (bare !== undefined) return { address: bare, port: defaultPort };
  const [, bracketed, plain, portText = ""] = /^(?:\[([^\]]*)\]|([^:]*)):(.*)$/.exec(text) ?? [];
  const address = bracketed === undefined ? canonicalAddress(plain ?? "", "ip") : canonicalAddress(bracketed);
  const port = PORT.test(portText) ? Number(portText) : Number.POSITIVE_INFINITY;
  return address === undefined || port > 65_535 ? undefined : { address, port };
}

/** Writes `10.0.0.1:80` or `[fd00::1]:80`; `0.0.0.0:0` for a server that is switched off. */
export function formatListenAddress(listen: ListenAddress | undefined): string {
  const { address, port } = listen ?? OFF;
  return socketText(address, port);
}
