import { boolean, choice, type Field, integer, setting, text } from "../base/option.ts";
import { alternatives, quoted } from "../base/text.ts";
import { SCHEDULERS, type Scheduler } from "../model/scheduler.ts";
import { type ConfigWarning, ignoredWarning } from "./invalid-value.ts";

/** Settings of kube-proxy modes other than nftables: a configuration as given, valid by the schema. */
export interface ModeSettings {
  readonly mode?: string | null;
  readonly nftables?: MasqueradeFields | null;
  readonly iptables?: MasqueradeFields | null;
  readonly ipvs?: { readonly scheduler?: string | null } | null;
  readonly nftProxy?: { readonly scheduler?: string | null } | null;
}

interface MasqueradeFields {
  readonly masqueradeAll?: boolean | null;
  readonly masqueradeBit?: number | null;
}

/** The names of the settings in messages: those of the file's fields, or of the flags. */
export interface SettingNames {
  readonly mode: string;
  /** The mode in which an IPVS scheduler has an effect. */
  readonly ipvsMode: string;
  readonly ipvsScheduler: string;
  /** The setting that is used instead. */
  readonly ownScheduler: string;
  readonly masqueradeBit: string;
}

/** The names in a configuration file. */
export const FIELD_NAMES: SettingNames = {
  mode: "mode",
  ipvsMode: "mode ipvs",
  ipvsScheduler: "ipvs.scheduler",
  ownScheduler: "nftProxy.scheduler",
  masqueradeBit: "iptables.masqueradeBit",
};

/** The names on a command line. */
export const FLAG_NAMES: SettingNames = {
  mode: "--proxy-mode",
  ipvsMode: "--proxy-mode=ipvs",
  ipvsScheduler: "--ipvs-scheduler",
  ownScheduler: "--scheduler",
  masqueradeBit: "--iptables-masquerade-bit",
};

/** Returns warnings about a mode, or a setting of a mode, that is not used as given. */
export function modeWarnings(given: ModeSettings, names: SettingNames): ConfigWarning[] {
  return [
    ...otherModeWarnings(given.mode, names.mode),
    ...ipvsWarnings(given, names),
    ...masqueradeWarnings(given, names.masqueradeBit),
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

/** The equivalents of IPVS schedulers. kube-proxy configures `mh` to hash the source address and port. */
const SAME: Readonly<Record<string, Scheduler>> = {
  rr: "round-robin",
  wrr: "round-robin",
  sh: "source-hash",
  mh: "flow-hash",
};

/** kube-proxy's default. */
const DEFAULT_SCHEDULER = "rr";

/** Returns the equivalent of an IPVS scheduler; undefined if there is none. */
export function sameScheduler(ipvs: string): Scheduler | undefined {
  return Object.hasOwn(SAME, ipvs) ? SAME[ipvs] : undefined;
}

/**
 * Returns the scheduler that a configuration for kube-proxy's ipvs mode selects; `random` if it has no
 * equivalent.
 */
export function presetScheduler({ mode, ipvs }: ModeSettings): Scheduler {
  return mode === "ipvs" ? (sameScheduler(ipvs?.scheduler || DEFAULT_SCHEDULER) ?? "random") : "random";
}

function ipvsWarnings(given: ModeSettings, names: SettingNames): ConfigWarning[] {
  const { ipvsScheduler: subject, ownScheduler } = names;
  const text = given.ipvs?.scheduler ?? "";
  if (text === "") return [];
  if (given.mode !== "ipvs") {
    return [
      ignoredWarning(
        subject,
        `it has an effect with ${names.ipvsMode} only; ${ownScheduler} has one in every mode`,
      ),
    ];
  }
  if (given.nftProxy?.scheduler) return [ignoredWarning(subject, `${ownScheduler} decides`)];
  if (sameScheduler(text) !== undefined) return [];
  const message = `${subject}: ${text} is replaced by ${presetScheduler(given)}; there are ${alternatives(SCHEDULERS)}`;
  return [{ subject, message }];
}

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
  text({
    path: "ipvs.scheduler",
    preset: undefined,
    flag: setting(
      "ipvs-scheduler",
      "With --proxy-mode=ipvs, the default scheduler: rr, wrr, sh and mh have an equivalent, others are replaced",
    ),
    reload: "now",
    note: "with mode ipvs: rr, wrr, sh and mh have an equivalent, others are replaced with a warning",
  }),
].flatMap(({ fields }) => fields);

/** Whether the default of an option depends on a field. */
export function isModeField(path: string): boolean {
  return path === "nftProxy.scheduler" || MODE_FIELDS.some((field) => field.path === path);
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
