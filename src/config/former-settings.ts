/** A way to forbid a feature before `--features`. */
interface FormerSetting {
  /** The field of the configuration. */
  readonly path: string;
  readonly flag: string;
  /** The value that forbade it; absent if the whole setting is gone. */
  readonly value?: unknown;
  readonly feature: string;
}

const FORMER: readonly FormerSetting[] = [
  { path: "nftProxy.connectionTimeouts", flag: "connection-timeouts", feature: "connection-timeouts" },
  { path: "nftProxy.ignoreServiceResets", flag: "ignore-service-resets", feature: "connection-life" },
  { path: "nftProxy.maxLimitedClients", flag: "max-limited-clients", value: 0, feature: "client-limits" },
  {
    path: "nftProxy.passiveHealthCheck",
    flag: "passive-health-check",
    value: "never",
    feature: "passive-health-checks",
  },
  { path: "nftProxy.portRanges", flag: "port-ranges", value: "off", feature: "port-ranges" },
];

/**
 * Returns how to say today what a field of the configuration said before `--features`; undefined for another
 * field or value.
 */
export function formerFieldHint(path: string, value: unknown): string | undefined {
  return hintOf(
    FORMER.find((former) => former.path === path && (!("value" in former) || former.value === value)),
  );
}

/** The same for a flag that does not exist any more; `name` without dashes. */
export function formerFlagHint(name: string): string | undefined {
  return hintOf(FORMER.find((former) => former.flag === name && !("value" in former)));
}

function hintOf(former: FormerSetting | undefined): string | undefined {
  return (
    former && `${former.feature} is off unless --features (nftProxy.features) names it, so leave it out there`
  );
}
