/** The byte order of the host's numbers, as `os.endianness()` names it. */
export type Endianness = "LE" | "BE";

/** Bytes of an attribute's header: its length and its type, 16 bits each. */
const HEADER = 4;

/** The bits of an attribute's type that are flags (NLA_F_NESTED, NLA_F_NET_BYTEORDER). */
const TYPE = 0x3fff;

/** Why bytes are no message; caught where the message begins. */
export class MalformedMessage extends Error {}

/** The next multiple of four: messages, attributes and parts of a concatenation are padded to it. */
export function padded(length: number): number {
  return (length + 3) & ~3;
}

/**
 * Reads numbers, texts and attributes at offsets of a buffer, without an object for each of them. An attribute's offset is
 * that of its header. Source: linux/netlink.h.
 */
export class AttributeView {
  readonly #bytes: Buffer;
  readonly #isLittle: boolean;

  constructor(bytes: Buffer, endianness: Endianness) {
    this.#bytes = bytes;
    this.#isLittle = endianness === "LE";
  }

  /** A number of 16 bits in the host's byte order. */
  host16(at: number): number {
    return this.#isLittle ? this.#bytes.readUInt16LE(at) : this.#bytes.readUInt16BE(at);
  }

  /** A number of 32 bits in the host's byte order. */
  host32(at: number): number {
    return this.#isLittle ? this.#bytes.readUInt32LE(at) : this.#bytes.readUInt32BE(at);
  }

  /** A byte. */
  byte(at: number): number {
    return this.#bytes.readUInt8(at);
  }

  /** Where an attribute ends, without its padding. @throws MalformedMessage when it does not end before `limit` */
  end(at: number, limit: number): number {
    if (limit - at < HEADER) throw new MalformedMessage("attribute cut off");
    const length = this.host16(at);
    if (length < HEADER || at + length > limit) throw new MalformedMessage(`attribute of ${length} bytes`);
    return at + length;
  }

  /** An attribute's type. */
  type(at: number): number {
    return this.host16(at + 2) & TYPE;
  }

  /** Where an attribute's content begins. */
  content(at: number): number {
    return at + HEADER;
  }

  /** The content of an attribute that is a number of 32 bits, in network byte order as all of nftables'. @throws MalformedMessage */
  number32(at: number, end: number): number {
    if (end - at !== HEADER + 4) throw new MalformedMessage("number that is not of 32 bits");
    return this.#bytes.readUInt32BE(at + HEADER);
  }

  /** The same of 64 bits; beyond 2^53 it is not exact. @throws MalformedMessage */
  number64(at: number, end: number): number {
    if (end - at !== HEADER + 8) throw new MalformedMessage("number that is not of 64 bits");
    return this.#bytes.readUInt32BE(at + HEADER) * 2 ** 32 + this.#bytes.readUInt32BE(at + HEADER + 4);
  }

  /** The content of an attribute that is a text, which ends with its first zero byte. */
  text(at: number, end: number): string {
    const from = at + HEADER;
    let until = from;
    while (until < end && this.#bytes[until] !== 0) until++;
    return this.#bytes.toString("utf8", from, until);
  }

  /** The content of an attribute, one character for each byte. */
  latin1(at: number, end: number): string {
    return this.#bytes.toString("latin1", at + HEADER, end);
  }
}
