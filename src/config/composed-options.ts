import type { ByFamily, Family } from "../base/family.ts";
import {
  type Document,
  type FieldFlag,
  type Flag,
  fieldFlag,
  type Option,
  setting,
  valid,
} from "../base/option.ts";
import { quoted } from "../base/text.ts";
import { familyOf } from "../model/ip.ts";
import { formatListenAddress, type ListenAddress, parseListenAddress } from "./addresses.ts";

/** The default port of `/healthz`. */
export const HEALTHZ_PORT = 10_256;

/** The default port of `/metrics`. */
export const METRICS_PORT = 10_249;

/** Definition of the option of a server's address. */
interface ServerRow {
  readonly path: string;
  /** Default address, by the family of `bindAddress`. */
  readonly hosts: ByFamily<string>;
  readonly port: number;
  readonly flag: FieldFlag;
  /** kube-proxy's deprecated flag for the port; absent for a server of our own, which is off by default. */
  readonly portFlag?: string;
}

/**
 * Returns the option of a server's address: undefined if its port is 0. kube-proxy's help says that an empty
 * address switches the server off, but it does not.
 */
export function server({ path, hosts, port, flag, portFlag }: ServerRow): Option<ListenAddress | undefined> {
  const isOwn = portFlag === undefined;
  const preset = ({ bindAddress }: Document): string => {
    const family: Family =
      typeof bindAddress === "string" && familyOf(bindAddress || "0.0.0.0") === "ip6" ? "ip6" : "ip";
    return formatListenAddress(isOwn ? undefined : { address: hosts[family], port });
  };
  const addressFlag: FieldFlag = {
    ...flag,
    description: `${flag.description}; port 0 switches it off`,
    ifEmpty: "is empty, which means its default, as in kube-proxy; port 0 switches the server off",
  };
  return {
    fields: [
      {
        path,
        schema: { type: "string", format: "listen-address" },
        preset,
        isUnset: (value) => value === "",
        flags: [
          fieldFlag(addressFlag, "string", path),
          ...(isOwn ? [] : [deprecatedPortFlag(portFlag, path, flag.name, port)]),
        ],
        ...(!isOwn && {
          note: "port 0 switches the server off, which a file for kube-proxy cannot",
        }),
      },
    ],
    parse: ([text]) => {
      const listen = valid(parseListenAddress(String(text), port));
      return listen.port === 0 ? undefined : listen;
    },
    print: (listen) => [formatListenAddress(listen)],
  };
}

/**
 * A deprecated flag of kube-proxy that sets the port of a server, or switches it off with 0. The port in the
 * address of the newer flag takes precedence unless it is the default.
 */
function deprecatedPortFlag(name: string, path: string, successor: string, defaultPort: number): Flag {
  const flag: FieldFlag = {
    ...setting(name, `Deprecated: use --${successor}`),
    successor,
    refuse: portReason,
    combine: (current, value) => {
      const listen = parseListenAddress(String(current), defaultPort);
      if (listen === undefined || portReason(String(value)) !== undefined) return current;
      const isUsed = value === 0 || listen.port === defaultPort;
      return isUsed ? formatListenAddress({ ...listen, port: Number(value) }) : current;
    },
  };
  return fieldFlag(flag, "integer", path);
}

function portReason(text: string): string | undefined {
  const isPort = /^(?:0|[1-9]\d{0,4})$/.test(text) && Number(text) <= 65_535;
  return isPort ? undefined : `must be a port 1..65535, or 0 to switch the server off, not ${quoted(text)}`;
}

/** How traffic of this node's pods is detected: kube-proxy's `--detect-local-mode`. */
export type DetectLocal =
  | { readonly kind: "cluster-cidr" }
  | { readonly kind: "node-cidr" }
  | { readonly kind: "bridge"; readonly interface: string }
  | { readonly kind: "interface-prefix"; readonly prefix: string };

/** kube-proxy's name of each mode. */
const DETECT_LOCAL_MODES: Readonly<Record<DetectLocal["kind"], string>> = {
  "cluster-cidr": "ClusterCIDR",
  "node-cidr": "NodeCIDR",
  bridge: "BridgeInterface",
  "interface-prefix": "InterfaceNamePrefix",
};

/** Returns a mode with the name that it needs. */
function detectLocalOf(kind: DetectLocal["kind"], bridge: string, prefix: string): DetectLocal {
  switch (kind) {
    case "cluster-cidr":
    case "node-cidr":
      return { kind };
    case "bridge":
      return { kind, interface: bridge };
    case "interface-prefix":
      return { kind, prefix };
  }
}

/** Returns the option of three fields: the mode, and the name that each of two modes needs. */
export function detectLocal(): Option<DetectLocal> {
  const [mode, bridge, prefix] = [
    "detectLocalMode",
    "detectLocal.bridgeInterface",
    "detectLocal.interfaceNamePrefix",
  ];
  const name = (path: string, flag: FieldFlag) => ({
    path,
    schema: { type: "string", format: "interface-name" },
    preset: "",
    flags: [fieldFlag(flag, "string", path)],
  });
  const modes = Object.values(DETECT_LOCAL_MODES);
  const kinds = Object.keys(DETECT_LOCAL_MODES) as DetectLocal["kind"][];
  const modeFlag: FieldFlag = {
    ...setting(
      "detect-local-mode",
      "How to detect traffic of this node's pods: ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix",
    ),
    values: modes,
  };
  return {
    fields: [
      {
        path: mode,
        schema: { enum: ["", ...modes] },
        preset: "ClusterCIDR",
        isUnset: (value) => value === "",
        flags: [fieldFlag(modeFlag, "string", mode)],
      },
      name(bridge, setting("pod-bridge-interface", "Bridge interface of the pods, for BridgeInterface")),
      name(
        prefix,
        setting(
          "pod-interface-name-prefix",
          "Prefix of the names of the pods' interfaces, for InterfaceNamePrefix",
        ),
      ),
    ],
    parse: ([given, bridgeName, prefixName]) => {
      const kind = kinds.find((one) => DETECT_LOCAL_MODES[one] === given);
      return detectLocalOf(valid(kind), String(bridgeName), String(prefixName));
    },
    print: (value) => [
      DETECT_LOCAL_MODES[value.kind],
      value.kind === "bridge" ? value.interface : "",
      value.kind === "interface-prefix" ? value.prefix : "",
    ],
    reload: "now",
  };
}

/**
 * Returns the option of the only feature gate. kube-proxy rejects gates that its version lacks, so it is
 * written only if it is false.
 */
export function serviceExternalIPs(): Option<boolean> {
  const flag = setting("feature-gates", "AllowServiceExternalIPs=false ignores external IPs");
  return {
    fields: [
      {
        path: "featureGates.AllowServiceExternalIPs",
        schema: { type: "boolean" },
        preset: undefined,
        flags: [fieldFlag(flag, "feature-gates", "featureGates")],
        note: "false ignores `spec.externalIPs`; other gates are ignored with a warning",
      },
    ],
    parse: ([isAllowed]) => isAllowed !== false,
    print: (isAllowed) => [isAllowed ? undefined : false],
  };
}
