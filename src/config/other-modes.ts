import { boolean, choice, type Document, type Field, integer, setting } from "../base/option.ts";
import { FEATURES } from "../features/registry.ts";
import { ignoredWarning } from "./invalid-value.ts";

/** Settings of kube-proxy modes other than nftables: a configuration as given, valid by the schema. */
export interface ModeSettings extends Document {
  readonly mode?: string | null;
  readonly nftables?: MasqueradeFields | null;
  readonly iptables?: MasqueradeFields | null;
}

interface MasqueradeFields {
  readonly masqueradeAll?: boolean | null;
  readonly masqueradeBit?: number | null;
}

/**
 * Returns warnings about a mode, or a setting of a mode, that is not used as given.
 * @param as whether messages name the file's fields, or flags
 */
export function modeWarnings(given: ModeSettings, as: "fields" | "flags"): string[] {
  return [...MODE_FIELDS, ...FEATURE_FIELDS].flatMap(({ path, flags: [flag], warning }) => {
    const subject = as === "flags" && flag !== undefined ? `--${flag.name}` : path;
    return warning?.(given, subject) ?? [];
  });
}

/** Warns that another mode of kube-proxy is run as nftables. */
function otherModeWarning({ mode }: ModeSettings, subject: string): string | undefined {
  if (mode !== "iptables" && mode !== "ipvs" && mode !== "") return undefined;
  const given =
    mode === "" ? `${subject} is "", which means iptables for kube-proxy` : `${subject} is ${mode}`;
  return `${given}: nft-proxy always programs nftables, and serves NodePorts on the addresses that nodePortAddresses selects, by default the node's primary ones`;
}

/** kube-proxy's default of `masqueradeBit`, in each of its modes. */
const DEFAULT_BIT = 14;

/**
 * Returns how packets are masqueraded. In kube-proxy the section `iptables` decides this in every mode but
 * nftables. Users of these modes keep a mark bit that no other software uses, and the masquerading that some
 * network plugins need.
 * Source: https://github.com/kubernetes/kubernetes/blob/v1.36.2/pkg/proxy/apis/config/v1alpha1/conversion.go
 */
export function masqueradeSettings({ mode, iptables, nftables }: ModeSettings): {
  readonly masqueradeAll: boolean;
  readonly masqueradeBit: number;
} {
  const other = mode === "nftables" ? undefined : iptables;
  return {
    masqueradeAll: nftables?.masqueradeAll === true || other?.masqueradeAll === true,
    masqueradeBit: nftables?.masqueradeBit ?? other?.masqueradeBit ?? DEFAULT_BIT,
  };
}

/** Returns the warning about a setting of the section `iptables`; false and absent ones need none. */
function masqueradeWarning(name: keyof MasqueradeFields): Field["warning"] {
  return (given: ModeSettings, subject) => {
    const value = given.iptables?.[name] ?? false;
    if (value === false || value === masqueradeSettings(given)[name]) return undefined;
    const reason =
      given.mode === "nftables"
        ? "it has an effect in modes other than nftables only"
        : "nftables.masqueradeBit overrides it";
    return ignoredWarning(subject, reason);
  };
}

/** The fields of features' options. */
export const FEATURE_FIELDS: readonly Field[] = FEATURES.flatMap(({ options = {} }) =>
  Object.values(options).flatMap(({ fields }) => fields),
);

/**
 * Fields of kube-proxy's other modes. They only change defaults of options, and take effect like these
 * options.
 */
export const MODE_FIELDS: readonly Field[] = [
  choice({
    path: "mode",
    words: ["nftables", "iptables", "ipvs"],
    preset: "nftables",
    flag: setting("proxy-mode", "nftables; iptables and ipvs are accepted, and run as nftables"),
    note: 'nftables; "", iptables and ipvs are accepted with a warning, and run as nftables',
    warning: otherModeWarning,
  }),
  boolean({
    path: "iptables.masqueradeAll",
    preset: undefined,
    note: "in every mode but nftables, as in kube-proxy",
    warning: masqueradeWarning("masqueradeAll"),
  }),
  integer({
    path: "iptables.masqueradeBit",
    between: [0, 31],
    preset: undefined,
    flag: setting(
      "iptables-masquerade-bit",
      "The bit of the packet mark that requests masquerading, 0..31; not with --proxy-mode=nftables",
    ),
    note: "in every mode but nftables, as in kube-proxy, unless nftables.masqueradeBit is given",
    warning: masqueradeWarning("masqueradeBit"),
  }),
].flatMap(({ fields }) => fields);

/** Whether a field belongs to kube-proxy's other modes, or its default depends on such a field. */
export function isModeField(path: string): boolean {
  const ofFeatures = FEATURE_FIELDS.filter(({ preset, warning }) => warning ?? typeof preset === "function");
  return [...MODE_FIELDS, ...ofFeatures].some((field) => field.path === path);
}
