import { SharedValues } from "../../../src/base/shared-values.ts";
import { quoted } from "../../../src/base/text.ts";
import type { Feature } from "../../../src/features/seam/feature.ts";
import { wholeNumber } from "../../../src/model/named-values.ts";
import type { Service } from "../../../src/model/service.ts";
import { assign, payload, verdictMap } from "../../../src/nft/ast/expression.ts";
import { SERVICE_PORT_ID } from "../../../src/ruleset/balancers.ts";
import type { FamilyContext, PortPart, RulesetPart } from "../../../src/ruleset/node-context.ts";

const FEATURE = "dscp";

/** The annotation of a Service that sets the DSCP field of the first packet of its connections: `10`. */
export const DSCP_ANNOTATION = "nft-proxy.io/dscp";

/** Service port id to the chain that sets the field. */
const DSCP = "dscp";

/** Maximum of the field, which has six bits. */
const MOST_VALUE = 63;

/** Maximum number of different values of a family, each of which has a chain. */
export const MOST_VALUES = 8;

/** The value of a Service; undefined for none. */
function dscpOf({ features }: Pick<Service, "features">): number | undefined {
  return (features?.[FEATURE] as { readonly value: number } | undefined)?.value;
}

const chainName = (value: number) => `dscp-${value}`;

/** Shares equal parts. */
const parts = new SharedValues<PortPart>();

function partFor(value: number, family: FamilyContext["family"]): PortPart {
  const name = chainName(value);
  return parts.share(`${family} ${name}`, {
    part: rules,
    map: DSCP,
    chain: { name, rules: [[assign(payload(family, "dscp"), value)]] },
  });
}

const rules: RulesetPart = {
  name: FEATURE,
  specs: () => [{ name: DSCP, key: ["classid"], value: "verdict", dynamic: false, counter: false }],
  beforeBalancing: [[verdictMap(SERVICE_PORT_ID, DSCP)]],
  isChainOfPort: (name) => /^dscp-\d{1,2}$/.test(name),
  partOf: ({ service, family }) => {
    const value = dscpOf(service);
    return value === undefined ? undefined : partFor(value, family);
  },
  budget: {
    text: "its DSCP value",
    topic: "DSCP",
    event: "DscpNotSet",
    annotation: DSCP_ANNOTATION,
    amountOf: ({ service }) => (dscpOf(service) === undefined ? 0 : 1),
    most: MOST_VALUES,
    what: "different DSCP values in a family",
    sharedOf: ({ service }) => {
      const value = dscpOf(service);
      return value === undefined ? undefined : chainName(value);
    },
    none: "this node's kernel cannot set the DSCP field",
  },
  needs: {
    name: "changes of the DSCP field",
    hint: "use nft 1.1.3 and a kernel with nf_tables payload changes",
    consequence: "packets keep their DSCP field",
    sample: () => [partFor(0, "ip")],
  },
};

export const dscp: Feature = {
  name: FEATURE,
  annotations: [
    {
      name: DSCP_ANNOTATION,
      values: "`0` to `63`",
      absent: "packets keep their field",
      cost: "one more lookup for a new connection; 8 different values in a family",
      event: "InvalidDscp",
      parse: (text) => {
        const value = wholeNumber(text.trim());
        if (value !== undefined && value <= MOST_VALUE) return { value: { value } };
        return { reason: `must be a number from 0 to ${MOST_VALUE}, not ${quoted(text)}` };
      },
    },
  ],
  ruleset: rules,
  words: {
    note: ({ service }) => {
      const value = dscpOf(service);
      return value === undefined
        ? undefined
        : `the first packet of each connection gets the DSCP value ${value}`;
    },
    badge: (service) => {
      const value = dscpOf(service);
      return value === undefined ? undefined : `DSCP ${value}`;
    },
    found: { [DSCP]: "the DSCP field is set" },
  },
};
