// biome-ignore lint/style/noRestrictedImports: a hash is as pure as the text that it is made of
import { createHash } from "node:crypto";

/** A name for a text: 80 bits of its SHA-256, in hexadecimal. Nobody can make another text of the same name. */
export function digest(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 20);
}
