import type { ByFamily, Family } from "../base/family.ts";
import {
  choice,
  type Document,
  type FieldFlag,
  type Flag,
  fieldFlag,
  type Option,
  setting,
  text,
  valid,
} from "../base/option.ts";
import { quoted } from "../base/text.ts";
import { familyOf } from "../model/ip.ts";
import { formatListenAddress, isPort, type ListenAddress, parseListenAddress } from "./addresses.ts";

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
  const { fields } = text({
    path,
    format: "listen-address",
    preset,
    flag: addressFlag,
    ...(!isOwn && { note: "port 0 switches the server off, which a file for kube-proxy cannot" }),
  });
  const more = isOwn ? [] : [deprecatedPortFlag(portFlag, path, flag.name, port)];
  return {
    fields: fields.map((field) => ({ ...field, flags: [...field.flags, ...more] })),
    parse: ([address]) => {
      const listen = valid(parseListenAddress(String(address), port));
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

function portReason(given: string): string | undefined {
  return isPort(given)
    ? undefined
    : `must be a port 1..65535, or 0 to switch the server off, not ${quoted(given)}`;
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

/** Returns the option of three fields: the mode, and the name that each of two modes needs. */
export function detectLocal(): Option<DetectLocal> {
  const kinds = Object.keys(DETECT_LOCAL_MODES) as DetectLocal["kind"][];
  const name = (path: string, flag: FieldFlag) => text({ path, format: "interface-name", preset: "", flag });
  return {
    fields: [
      choice({
        path: "detectLocalMode",
        words: Object.values(DETECT_LOCAL_MODES),
        preset: "ClusterCIDR",
        flag: setting(
          "detect-local-mode",
          "How to detect traffic of this node's pods: ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix",
        ),
      }),
      name(
        "detectLocal.bridgeInterface",
        setting("pod-bridge-interface", "Bridge interface of the pods, for BridgeInterface"),
      ),
      name(
        "detectLocal.interfaceNamePrefix",
        setting(
          "pod-interface-name-prefix",
          "Prefix of the names of the pods' interfaces, for InterfaceNamePrefix",
        ),
      ),
    ].flatMap(({ fields }) => fields),
    parse: ([mode, bridge, prefix]) => {
      const kind = valid(kinds.find((one) => DETECT_LOCAL_MODES[one] === mode));
      if (kind === "bridge") return { kind, interface: String(bridge) };
      return kind === "interface-prefix" ? { kind, prefix: String(prefix) } : { kind };
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
