import { boolean, choice, type Document, type Field, integer, setting } from "../base/option.ts";
import { quoted } from "../base/text.ts";
import { FEATURES } from "../features/registry.ts";
import { type ConfigWarning, ignoredWarning } from "./invalid-value.ts";

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
export function modeWarnings(given: ModeSettings, as: "fields" | "flags"): ConfigWarning[] {
  const areFlags = as === "flags";
  return [
    ...otherModeWarnings(given.mode, areFlags ? "--proxy-mode" : "mode"),
    ...fieldWarnings(given, areFlags),
    ...masqueradeWarnings(given, areFlags ? "--iptables-masquerade-bit" : "iptables.masqueradeBit"),
  ];
}

/** Warns that another mode of kube-proxy is run as nftables. */
function otherModeWarnings(mode: ModeSettings["mode"], subject: string): ConfigWarning[] {
  if (mode !== "iptables" && mode !== "ipvs" && mode !== "") return [];
  const given =
    mode === "" ? `${subject} is "", which means iptables for kube-proxy` : `${subject} is ${mode}`;
  const message = `${given}: nft-proxy always programs nftables, and serves NodePorts on the addresses that nodePortAddresses selects, by default the node's primary ones`;
  return [{ subject, message }];
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

function masqueradeWarnings(given: ModeSettings, bit: string): ConfigWarning[] {
  const used = masqueradeSettings(given);
  const { masqueradeAll, masqueradeBit } = given.iptables ?? {};
  const reason =
    given.mode === "nftables"
      ? "it has an effect in modes other than nftables only"
      : "nftables.masqueradeBit overrides it";
  return [
    ...(masqueradeAll === true && !used.masqueradeAll
      ? [ignoredWarning("iptables.masqueradeAll", reason)]
      : []),
    ...(typeof masqueradeBit === "number" && masqueradeBit !== used.masqueradeBit
      ? [ignoredWarning(bit, reason)]
      : []),
  ];
}

/** Warns about settings of other modes that options of features use. */
function fieldWarnings(given: ModeSettings, areFlags: boolean): ConfigWarning[] {
  return FEATURE_FIELDS.flatMap(({ path, flags: [flag], warning }) => {
    const subject = areFlags && flag !== undefined ? `--${flag.name}` : path;
    const message = warning?.(given, subject);
    return message === undefined ? [] : [{ subject, message }];
  });
}

/** The fields of features' options. */
export const FEATURE_FIELDS: readonly Field[] = FEATURES.flatMap(({ options = {} }) =>
  Object.values(options).flatMap(({ fields }) => fields),
);

const MODES = ["nftables", "iptables", "ipvs"] as const;

/**
 * Fields of kube-proxy's other modes. They only change defaults of options, and take effect like these
 * options.
 */
export const MODE_FIELDS: readonly Field[] = [
  choice({
    path: "mode",
    words: MODES,
    preset: "nftables",
    flag: {
      ...setting("proxy-mode", "nftables; iptables and ipvs are accepted, and run as nftables"),
      refuse: refuseOtherModes,
    },
    reload: "now",
    note: 'nftables; "", iptables and ipvs are accepted with a warning, and run as nftables',
  }),
  boolean({
    path: "iptables.masqueradeAll",
    preset: undefined,
    reload: "now",
    note: "in every mode but nftables, as in kube-proxy",
  }),
  integer({
    path: "iptables.masqueradeBit",
    between: [0, 31],
    preset: undefined,
    flag: {
      ...setting(
        "iptables-masquerade-bit",
        "The bit of the packet mark that requests masquerading, 0..31; not with --proxy-mode=nftables",
      ),
      refuse: refuseNoBit,
    },
    reload: "now",
    note: "in every mode but nftables, as in kube-proxy, unless nftables.masqueradeBit is given",
  }),
].flatMap(({ fields }) => fields);

/** Whether a field belongs to kube-proxy's other modes, or its default depends on such a field. */
export function isModeField(path: string): boolean {
  const ofFeatures = FEATURE_FIELDS.filter(({ preset, warning }) => warning ?? typeof preset === "function");
  return [...MODE_FIELDS, ...ofFeatures].some((field) => field.path === path);
}

function refuseOtherModes(text: string): string | undefined {
  return text === "" || MODES.some((mode) => mode === text)
    ? undefined
    : `must be nftables, iptables or ipvs, not ${quoted(text)}; each is run as nftables`;
}

function refuseNoBit(text: string): string | undefined {
  const bit = text === "" ? Number.NaN : Number(text);
  if (Number.isInteger(bit) && bit >= 0 && bit <= 31) return undefined;
  return `must be an integer from 0 to 31, not ${quoted(text)}`;
}
