import { AppError } from "../base/errors.ts";
import type { Command, Transaction } from "../nft/ast/json.ts";
import { type Nft, NftRefusedError } from "./nft.ts";

/** Something that our transactions need of nft and the kernel. */
interface Feature {
  readonly name: string;
  readonly hint: string;
  readonly commands: readonly Command[];
}

const family = "ip";
const table = "nft-proxy-probe";
const rule = (...expr: readonly unknown[]): Command =>
  ({ add: { rule: { family, table, chain: "probe", expr } } }) as Command;
// nft lets a dnat name a port only where the transport protocol is known: it must be part of the key.
const key = {
  concat: [
    { payload: { protocol: "ip", field: "daddr" } },
    { meta: { key: "l4proto" } },
    { payload: { protocol: "th", field: "dport" } },
    { meta: { key: "priority" } },
  ],
};

const BASE: readonly Command[] = [
  { add: { table: { family, name: table } } },
  { add: { chain: { family, table, name: "probe", type: "nat", hook: "prerouting", prio: -100, policy: "accept" } } },
  { add: { chain: { family, table, name: "target" } } },
];

const ENDPOINTS: Command = {
  add: {
    map: {
      family,
      table,
      name: "endpoints",
      type: ["ipv4_addr", "inet_proto", "inet_service", "classid"],
      map: ["ipv4_addr", "inet_service"],
    },
  },
};

const AFFINITY: Command = {
  add: {
    map: {
      family,
      table,
      name: "affinity",
      type: "ipv4_addr",
      map: "classid",
      flags: ["dynamic", "timeout"],
      size: 1024,
    },
  },
};

const UPGRADE = "use nft 1.1.3 or newer, or name another with --nft-path";

const FEATURES: readonly Feature[] = [
  {
    name: "maps with concatenated values, as the target of a dnat",
    hint: UPGRADE,
    commands: [
      ENDPOINTS,
      rule(
        { mangle: { key: { meta: { key: "priority" } }, value: { numgen: { mode: "random", mod: 2, offset: 0 } } } },
        { dnat: { family, addr: { map: { key, data: "@endpoints" } } } },
      ),
    ],
  },
  {
    name: "dynamic maps with time-outs, updated and deleted from by rules",
    hint: UPGRADE,
    commands: [
      AFFINITY,
      rule(
        {
          mangle: {
            key: { meta: { key: "priority" } },
            value: { map: { key: { payload: { protocol: "ip", field: "saddr" } }, data: "@affinity" } },
          },
        },
        {
          map: {
            op: "update",
            elem: { elem: { val: { payload: { protocol: "ip", field: "saddr" } }, timeout: 60 } },
            data: { meta: { key: "priority" } },
            map: "@affinity",
          },
        },
      ),
      rule({
        map: { op: "delete", elem: { payload: { protocol: "ip", field: "saddr" } }, data: 0, map: "@affinity" },
      }),
    ],
  },
  {
    name: "verdict maps with counters",
    hint: UPGRADE,
    commands: [
      {
        add: {
          map: {
            family,
            table,
            name: "services",
            type: ["inet_proto", "inet_service"],
            map: "verdict",
            stmt: [{ counter: null }],
          },
        },
      },
      {
        add: {
          element: {
            family,
            table,
            name: "services",
            elem: [[{ concat: ["tcp", 80] }, { goto: { target: "target" } }]],
          },
        },
      },
    ],
  },
  {
    name: "fib lookups",
    hint: "load or build the kernel module nft_fib_ipv4 (CONFIG_NFT_FIB_IPV4)",
    commands: [rule({ match: { op: "==", left: { fib: { flags: ["saddr"], result: "type" } }, right: "local" } })],
  },
  {
    name: "masquerading with random ports",
    hint: "load or build the kernel modules nft_chain_nat and nft_masq (CONFIG_NFT_MASQ)",
    commands: [
      {
        add: { chain: { family, table, name: "post", type: "nat", hook: "postrouting", prio: 100, policy: "accept" } },
      },
      { add: { rule: { family, table, chain: "post", expr: [{ masquerade: { flags: "fully-random" } }] } } },
    ],
  },
  {
    name: "reject",
    hint: "load or build the kernel module nft_reject_ipv4 (CONFIG_NFT_REJECT)",
    commands: [{ add: { rule: { family, table, chain: "target", expr: [{ reject: null }] } } }],
  },
];

/**
 * Finds out whether nft and the kernel can do what we need, by asking for it and changing nothing. Versions are
 * not compared: distributions backport, and nft may be built without JSON.
 * @throws AppError NFT_FEATURE that names what is missing, HOST when we may not ask, NFT_MISSING
 */
export async function probeFeatures(nft: Nft): Promise<void> {
  const refusal = await refusalOf(nft, FEATURES);
  if (refusal === undefined) return;
  await explainCommonRefusals(nft, refusal);
  const missing: Feature[] = [];
  for (const feature of FEATURES) if ((await refusalOf(nft, [feature])) !== undefined) missing.push(feature);
  const names = missing.map((feature) => feature.name);
  throw new AppError("NFT_FEATURE", `nft at "${nft.path}" or this kernel lacks: ${names.join("; ") || "a feature"}`, {
    hint: [...new Set(missing.map((feature) => feature.hint))].join("; ") || UPGRADE,
    evidence: { version: await nft.version(), stderr: refusal },
  });
}

async function explainCommonRefusals(nft: Nft, refusal: string): Promise<void> {
  const version = await nft.version();
  if (/JSON support not compiled-in/i.test(refusal)) {
    throw new AppError("NFT_FEATURE", `nft at "${nft.path}" was built without JSON`, {
      hint: UPGRADE,
      evidence: { version },
    });
  }
  if (/Operation not permitted/.test(refusal)) {
    throw new AppError("HOST", "not allowed to program nftables", {
      hint: "run as root or with CAP_NET_ADMIN in this network namespace",
      evidence: { version, stderr: refusal },
    });
  }
}

async function refusalOf(nft: Nft, features: readonly Feature[]): Promise<string | undefined> {
  const transaction: Transaction = { nftables: [...BASE, ...features.flatMap((feature) => feature.commands)] };
  try {
    await nft.check(transaction);
    return undefined;
  } catch (error) {
    if (error instanceof NftRefusedError) return error.stderr;
    if (error instanceof AppError && error.code === "NFT_FEATURE") return error.message;
    throw error;
  }
}
