import { integer, MOST_32_BITS } from "../../base/option.ts";
import type { Feature } from "../seam/feature.ts";
import {
  type ClientLimits,
  clientLimitsOf,
  clientLimitsText,
  FEATURE,
  MAX_CONNECTIONS_ANNOTATION,
  NEW_CONNECTIONS_ANNOTATION,
  parseMaxConnections,
  parseNewConnections,
} from "./limits.ts";
import { CLIENT_CONNECTIONS, CLIENT_LIMITS, CLIENT_RATES, DEFAULT_MOST_CLIENTS, rules } from "./rules.ts";

export const clientLimits: Feature = {
  name: FEATURE,
  annotations: [
    {
      name: MAX_CONNECTIONS_ANNOTATION,
      values: "`1` to `1000`",
      absent: "no limit",
      cost: "one or two more lookups for a new connection; 64 different limits in a family",
      event: "InvalidClientLimits",
      parse: parseMaxConnections,
    },
    {
      name: NEW_CONNECTIONS_ANNOTATION,
      values: "such as `20/second burst 40`",
      absent: "no limit",
      cost: "one or two more lookups for a new connection; 64 different limits in a family",
      event: "InvalidClientLimits",
      parse: parseNewConnections,
    },
  ],
  former: { path: "nftProxy.maxLimitedClients", flag: "max-limited-clients", value: 0 },
  options: {
    maxLimitedClients: integer({
      path: "nftProxy.maxLimitedClients",
      between: [1, MOST_32_BITS],
      preset: DEFAULT_MOST_CLIENTS,
      flag: "Maximum number of clients, by Service port, whose connections are counted for the annotations nft-proxy.io/max-connections-per-client and new-connections-per-client, per IP family",
    }),
  },
  ruleset: rules,
  words: {
    // The kernel does not show how many connections of a client it counts.
    note: ({ service }) => {
      const limits = clientLimitsOf(service);
      return (
        limits &&
        `each source address can have ${clientLimitsText(limits)}; beyond that, TCP is reset and others are dropped (nft-proxy connections counts)`
      );
    },
    badge: (service) => {
      const limits = clientLimitsOf(service);
      return limits && clientLimitsText(limits);
    },
    found: { [CLIENT_LIMITS]: "clients have limits" },
    beyond: {
      [CLIENT_CONNECTIONS]: (most) => `the client has ${most} connections already`,
      [CLIENT_RATES]: () => "the client makes too many new connections",
    },
    refused: ({ service }, client) => {
      const limits = clientLimitsOf(service);
      return (
        limits && {
          message: `a client of Service ${service.name} can have ${clientLimitsText(limits)}, and ${client} had more`,
          action: remedy(limits),
          commands: [`nft-proxy connections --service ${service.name} --client ${client}`],
        }
      );
    },
  },
};

/** Names the annotation of the limit; of two, the record of refusals does not say which one it was. */
function remedy({ connections, rate }: ClientLimits): string {
  if (rate === undefined) return `find out why, or raise the limit: ${MAX_CONNECTIONS_ANNOTATION}`;
  if (connections === undefined) return `find out why, or raise the limit: ${NEW_CONNECTIONS_ANNOTATION}`;
  return `if it has ${connections} connections now, it was ${MAX_CONNECTIONS_ANNOTATION}, otherwise ${NEW_CONNECTIONS_ANNOTATION}`;
}
