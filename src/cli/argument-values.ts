import { oneOf } from "../base/argument.ts";
import { badArgument } from "../base/errors.ts";
import { didYouMean } from "../base/nearest.ts";
import { quoted } from "../base/text.ts";
import { isNamed, likelyService, type ServiceArgument } from "../inspect/explain/query.ts";
import type { Desired } from "../inspect/load/desired.ts";
import { namespaceOf, type ServiceName, serviceName } from "../model/ids.ts";
import { canonicalAddress } from "../model/ip.ts";
import { type Argv, textArgument } from "./command.ts";

const LABEL = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?";
const FORM = new RegExp(`^(?:(${LABEL})/)?(${LABEL})(?::(${LABEL}))?$`);
/**
 * The type that kubectl accepts before a name: `svc/cart`. A namespace of such a name is given by
 * `--namespace`.
 */
const KUBECTL_TYPE = /^(?:svc|services?)\//;
/**
 * The DNS name of a Service, short or in any cluster domain: `cart.shop:80`,
 * `cart.shop.svc.cluster.local:80`. A part of an address is not a name.
 */
const DNS_FORM = new RegExp(
  `^(?=.*[a-z])(${LABEL})\\.(${LABEL})(?:\\.svc(?:\\.[a-z0-9.-]+)?)?((?::${LABEL})?)$`,
);
const NAMESPACE = new RegExp(`^${LABEL}$`);

/**
 * Parses `--service namespace/name[:port]`. Returns undefined without the flag.
 * @throws AppError BAD_ARGUMENT
 */
export function serviceArgument(argv: Argv): ServiceArgument | undefined {
  const text = textArgument(argv, "service");
  const namespace = namespaceArgument(argv);
  const named = text === undefined ? undefined : parseService(text, namespace);
  if (text === undefined || named !== undefined) return named;
  throw badArgument(
    `--service must name a Service: namespace/name or namespace/name:port, not ${quoted(text)}`,
  );
}

/**
 * Checks `--namespace`. Returns undefined without the flag.
 * @throws AppError BAD_ARGUMENT
 */
export function namespaceArgument(argv: Argv): string | undefined {
  const text = textArgument(argv, "namespace");
  if (text === undefined || NAMESPACE.test(text)) return text;
  throw badArgument(`--namespace must be the name of a namespace, not ${quoted(text)}`);
}

/**
 * The canonical form of an address, which may be in brackets; undefined for other text. Applications log IPv4
 * connections to dual-stack sockets as `::ffff:10.0.0.1`.
 */
export function addressOf(text: string): string | undefined {
  return canonicalAddress(text.replace(/^\[(.*)\]$/, "$1").replace(/^::ffff:(?=[\d.]+$)/i, ""));
}

/** A flag's value as an address; undefined without the flag. Throws AppError BAD_ARGUMENT. */
export function addressArgument(argv: Argv, flag: string): string | undefined {
  const text = textArgument(argv, flag);
  const address = text === undefined ? undefined : addressOf(text);
  if (text === undefined || address !== undefined) return address;
  throw badArgument(`--${flag} must be an IP address, not ${quoted(text)}`, {
    hint: flag === "to" ? "by its name: --service namespace/name" : undefined,
  });
}

/**
 * Refuses a `--service` without rules, so that an empty result is not mistaken for good news.
 * @throws AppError BAD_ARGUMENT
 */
export function refuseUnserved(
  named: ServiceArgument | undefined,
  { state: { families }, cache }: Pick<Desired, "state" | "cache">,
): void {
  if (named === undefined) return;
  for (const family of Object.values(families))
    for (const { port } of family.allServicePortRules()) if (isNamed(port, named)) return;
  const { service, port } = named;
  const names = cache.serviceNames();
  const likely = names.includes(service) ? undefined : likelyService(service, names);
  throw badArgument(`no rules are made for ${service}${port === undefined ? "" : `:${port}`}`, {
    hint: likely ?? `nft-proxy explain ${service} says why, and names its ports`,
  });
}

/**
 * Warns if the namespace of `--namespace` has no Service, so that an empty result is not mistaken for good
 * news.
 */
export function emptyNamespaceNotices(
  namespace: string | undefined,
  names: readonly ServiceName[],
): string[] {
  if (namespace === undefined || names.some((name) => namespaceOf(name) === namespace)) return [];
  const hint = didYouMean(namespace, names.map(namespaceOf));
  return [`warning: there is no Service in namespace ${namespace}${hint === undefined ? "" : `: ${hint}`}`];
}

/**
 * Parses `namespace/name[:port]`, `name[:port]`, kubectl's `svc/name[:port]`, or a DNS name:
 * `name.namespace[:port]`, `name.namespace.svc.cluster.local[:port]`. Returns undefined for any other text.
 * @param namespace of a name that gives none; `default` if undefined
 */
export function parseService(text: string, namespace: string | undefined): ServiceArgument | undefined {
  const own = text.replace(DNS_FORM, "$2/$1$3").replace(KUBECTL_TYPE, "");
  const [, given = namespace ?? "default", name, port] = FORM.exec(own) ?? [];
  return name === undefined ? undefined : { service: serviceName(given, name), port };
}

/**
 * Returns the format of `--output`, or the first of `formats` without the flag.
 * @throws AppError BAD_ARGUMENT for any other
 */
export function outputFormat<Format extends string>(
  argv: Argv,
  formats: readonly [Format, ...Format[]],
): Format {
  const given = textArgument(argv, "output");
  return given === undefined ? formats[0] : oneOf("--output", formats, given);
}
