import { boolean, integer, MOST_31_BITS, optionOf } from "../../base/option.ts";
import { counted } from "../../base/text.ts";
import { flowtableAddition } from "../../nft/transaction.ts";
import { flowtableOf } from "../../ruleset/node-context.ts";
import type { Feature } from "../seam/feature.ts";
import { chainCheck } from "./chain-check.ts";
import { FastPathDevices } from "./devices.ts";
import { interfaceReader, MOST_DEVICES } from "./interfaces.ts";
import { DEFAULT_AFTER, type FastPathSettings, FEATURE, packetsBefore, rules } from "./rules.ts";

const FORMAT = "interface-pattern";

/** The asterisk is handled by nft-proxy: nft gets names without it. */
const INTERFACE_PATTERN = /^(?=.{1,15}$)[a-zA-Z0-9_.-]*\*?$/;

/** Forwards established connections to Services past most of the kernel's network stack, by a flow table. */
export const fastPath: Feature = {
  name: FEATURE,
  isEnabled: (settings) => (settings as FastPathSettings).fastPath === true,
  options: {
    fastPath: boolean({
      path: "nftProxy.fastPath",
      preset: false,
      flag: "Forward established connections past the network stack's later steps; other software's rules do not see them",
    }),
    fastPathAfter: integer({
      path: "nftProxy.fastPathAfter",
      between: [1, MOST_31_BITS],
      preset: DEFAULT_AFTER,
      flag: "Average number of a client's packets after which a connection takes the fast path",
    }),
    fastPathInterfaces: optionOf<readonly string[], readonly string[]>(
      {
        path: "nftProxy.fastPathInterfaces",
        preset: [],
        flag: "Network interfaces with a fast path, a final * stands for any text; by default all Ethernet interfaces except ports of bridges and bonds",
      },
      {
        schema: { type: "array", items: { type: "string", format: FORMAT } },
        flagType: "list",
        parse: (list) => list,
        print: (list) => list,
      },
    ),
  },
  formats: {
    [FORMAT]: {
      check: (text) => INTERFACE_PATTERN.test(text),
      rule: "must be 1 to 15 letters, digits, dots, dashes and underscores, with an asterisk at the end for any further ones",
    },
  },
  ruleset: rules,
  createDaemonPart: (host) => new FastPathDevices(host),
  // Adds the interfaces that exist now to the flow tables.
  afterApply: async (tables, host) => {
    const { devices, excluded } = await interfaceReader(host)();
    const commands = Object.values(tables).flatMap((table) => flowtableAddition(table, devices));
    if (commands.length > 0) await host.nft.apply({ nftables: commands });
    if (excluded.length === 0) return [];
    const [most, others] = [counted(MOST_DEVICES, "interface"), excluded.length];
    return [
      `a flow table has room for ${most}; ${others} get no fast path: choose some with --fast-path-interfaces`,
    ];
  },
  chainCheck,
  words: {
    topic: "fast path",
    forwarded: (context, protocol) =>
      flowtableOf(context)?.name === FEATURE && protocol !== "sctp"
        ? `the connection takes it after about ${packetsBefore(context.settings)} packets of the client; counters and rules of other software do not see its later packets`
        : undefined,
    untraced:
      "note: packets of connections on the fast path bypass all rules and are not traced; nft-proxy connections lists these as offloaded",
  },
};
