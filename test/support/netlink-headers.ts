/** The header of a netlink message (struct nlmsghdr). */
export interface NetlinkHeader {
  readonly type: number;
  /** The port id of the socket that committed, or that gets this answer. */
  readonly portId: number;
}

/** NFT_MSG_NEWGEN: the end of a commit, or the answer to {@link GENERATION_REQUEST}. */
export const NEW_GENERATION = 0xa0f;
/** NFT_MSG_NEWSETELEM. */
export const NEW_ELEMENTS = 0xa0c;
/** NLMSG_ERROR. */
export const ERROR = 2;
/** NLMSG_DONE. */
export const DONE = 3;

/** A request for the number of the last commit. */
export const GENERATION_REQUEST: Uint8Array = netlinkRequest(0xa10, 0, []);

/** A request for all elements of a set of family ip. */
export function elementsRequest(table: string, set: string): Uint8Array {
  return netlinkRequest(0xa0d, 0x300, [textAttribute(1, table), textAttribute(2, set)]);
}

function netlinkRequest(type: number, flags: number, attributes: readonly Buffer[]): Uint8Array {
  const body = Buffer.concat([Buffer.from([flags === 0 ? 0 : 2, 0, 0, 0]), ...attributes]);
  const header = Buffer.alloc(16);
  header.writeUInt32LE(16 + body.length, 0);
  header.writeUInt16LE(type, 4);
  header.writeUInt16LE(1 | flags, 6);
  return Buffer.concat([header, body]);
}

function textAttribute(type: number, text: string): Buffer {
  const length = 4 + text.length + 1;
  const attribute = Buffer.alloc((length + 3) & ~3);
  attribute.writeUInt16LE(length, 0);
  attribute.writeUInt16LE(type, 2);
  attribute.write(text, 4);
  return attribute;
}

/** Reads the headers of messages that arrive in pieces, and counts the elements in the messages. */
export class HeaderReader {
  elements = 0;
  #rest: Buffer = Buffer.alloc(0);

  readonly read = (chunk: Uint8Array): NetlinkHeader[] => {
    const bytes = Buffer.concat([this.#rest, chunk]);
    const headers: NetlinkHeader[] = [];
    let at = 0;
    while (at + 16 <= bytes.length && at + bytes.readUInt32LE(at) <= bytes.length) {
      const end = at + bytes.readUInt32LE(at);
      const type = bytes.readUInt16LE(at + 4);
      headers.push({ type, portId: bytes.readUInt32LE(at + 12) });
      if (type === NEW_ELEMENTS) this.elements += elementsIn(bytes.subarray(at + 20, end));
      at = end;
    }
    this.#rest = bytes.subarray(at);
    return headers;
  };
}

/** Attribute 3 contains one attribute for each element. */
function elementsIn(attributes: Buffer): number {
  return inside(attributes)
    .filter(({ type }) => type === 3)
    .reduce((sum, { value }) => sum + inside(value).length, 0);
}

function inside(bytes: Buffer): { type: number; value: Buffer }[] {
  const attributes = [];
  for (let at = 0; at + 4 <= bytes.length; ) {
    const length = bytes.readUInt16LE(at);
    attributes.push({
      type: bytes.readUInt16LE(at + 2) & 0x3fff,
      value: bytes.subarray(at + 4, at + length),
    });
    at += (length + 3) & ~3;
  }
  return attributes;
}
