/** The byte order of the host's numbers, as `os.endianness()` names it. */
export type Endianness = "LE" | "BE";

/** Size of an attribute's header in bytes: length and type, 16 bits each. */
const HEADER = 4;

/** The bits of an attribute's type that are flags (NLA_F_NESTED, NLA_F_NET_BYTEORDER). */
const TYPE = 0x3fff;

/** Thrown for malformed bytes; the reader of messages catches it. */
export class MalformedMessage extends Error {}

/** Rounds up to a multiple of four: messages, attributes and parts of a concatenation are padded to it. */
export function padded(length: number): number {
  return (length + 3) & ~3;
}

/**
 * Reads numbers, texts and attributes at offsets of a buffer, without making objects. The offset of an
 * attribute is that of its header. Source: linux/netlink.h.
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

  byte(at: number): number {
    return this.#bytes.readUInt8(at);
  }

  /** The end of an attribute without its padding. @throws MalformedMessage if it is beyond `limit` */
  end(at: number, limit: number): number {
    if (limit - at < HEADER) throw new MalformedMessage("attribute cut off");
    const length = this.host16(at);
    if (length < HEADER || at + length > limit) throw new MalformedMessage(`attribute of ${length} bytes`);
    return at + length;
  }

  /** Reads each attribute between two offsets. @throws MalformedMessage as {@link end} and `read` do */
  each(from: number, limit: number, read: (type: number, at: number, end: number) => void): void {
    for (let at = from; at < limit; ) {
      const end = this.end(at, limit);
      read(this.type(at), at, end);
      at += padded(end - at);
    }
  }

  type(at: number): number {
    return this.host16(at + 2) & TYPE;
  }

  /** Where an attribute's content begins. */
  content(at: number): number {
    return at + HEADER;
  }

  /**
   * The content of an attribute with a number, in network byte order as all of them are here; not exact
   * beyond 2^53. @throws MalformedMessage for another size
   */
  number(at: number, end: number, bits: 8 | 16 | 32 | 64): number {
    if (end - at !== HEADER + bits / 8) throw new MalformedMessage(`number that is not of ${bits} bits`);
    const from = at + HEADER;
    // Faster than readUIntBE, and most numbers have 32 bits.
    if (bits === 32) return this.#bytes.readUInt32BE(from);
    if (bits < 64) return this.#bytes.readUIntBE(from, bits / 8);
    return this.#bytes.readUInt32BE(from) * 2 ** 32 + this.#bytes.readUInt32BE(from + 4);
  }

  /** The content of a text attribute, up to its first zero byte. */
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
