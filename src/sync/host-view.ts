import type { ProxyOptions } from "../config/options.ts";
import { allInterfaceAddresses } from "../kernel/addresses.ts";
import { type HostFiles, hostFamilies } from "../kernel/host.ts";
import type { HostView } from "./node-context.ts";

/**
 * Reads the host. Its addresses are read only when `--nodeport-addresses` chooses among them.
 * @throws AppError HOST when /proc does not say
 */
export async function readHostView(
  { nodePortAddresses }: Pick<ProxyOptions, "nodePortAddresses">,
  files: HostFiles,
): Promise<HostView> {
  const families = await hostFamilies(files);
  const { cidrs } = nodePortAddresses;
  if (cidrs.ip.length + cidrs.ip6.length === 0) return { families, addresses: { ip: [], ip6: [] } };
  return { families, addresses: await allInterfaceAddresses(files) };
}
