import { addressText } from "../../base/address-interval.ts";
import { addressInterval } from "./address.ts";
import { parseClassid, parseProtocol } from "./constant.ts";
import { asNumber } from "./shape.ts";

/** How a constant is read: by the field beside it. `any` keeps it as it is. */
export type AnyType = "ip" | "ip6" | "number" | "protocol" | "classid" | "tcp-flags" | "any";

/** TCP's flags by nft's names. Source: RFC 9293, section 3.1. */
export const TCP_FLAGS: Readonly<Record<string, number>> = {
  fin: 1,
  syn: 2,
  rst: 4,
  psh: 8,
  ack: 16,
  urg: 32,
  ecn: 64,
  cwr: 128,
};

/**
 * A constant in its canonical form.
 * @throws AppError NFT_OUTPUT for one that is not of its type
 */
export function anyConstant(value: string | number, type: AnyType): string | number {
  if (typeof value === "string" && value.startsWith("@")) return value;
  switch (type) {
    case "ip":
    case "ip6":
      return addressText(type, addressInterval(type, value).first);
    case "number":
      return asNumber(value, "number");
    case "protocol":
      return parseProtocol(value);
    case "classid":
      return parseClassid(value);
    case "tcp-flags":
      return typeof value === "string" && value in TCP_FLAGS ? (TCP_FLAGS[value] as number) : asNumber(value, "flag");
    case "any":
      return value;
  }
}
