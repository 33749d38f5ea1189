import { once } from "node:events";
import { createWriteStream, writeFileSync } from "node:fs";
import {
  CLUSTER_CIDR,
  type ClusterSize,
  clusterIP,
  laterPodIP,
  localPods,
  nameOf,
  POD_PORT,
  podIP,
  SERVICE_PORT,
} from "./cluster-objects.ts";

/**
 * Writes a ruleset for a cache in the shape of kube-proxy's nftables mode, as text for `nft -f`: a chain with
 * an anonymous map for every service port. test/fixtures/kube-proxy/town.nft is a recorded one.
 */
export async function writeKubeProxyShape(path: string, size: ClusterSize): Promise<void> {
  const { services, endpoints, protocol: ofCache = "TCP" } = size;
  const file = createWriteStream(path);
  const protocol = ofCache.toLowerCase();
  const numbers = Array.from({ length: services }, (_, service) => service);
  const list = (text: (service: number) => string) => numbers.map(text).join(",\n\t\t\t");
  file.write(HEAD);
  const hairpins = localPods(size).map((pod) => `${podIP(pod)} . ${podIP(pod)} . ${protocol} . ${POD_PORT}`);
  file.write(`\tset hairpin-connections { type ipv4_addr . ipv4_addr . inet_proto . inet_service\n`);
  file.write(`\t\telements = { ${hairpins.join(",\n\t\t\t")} }\n\t}\n`);
  file.write(`\tset cluster-ips { type ipv4_addr; elements = { ${list(clusterIP)} }\n\t}\n`);
  const frontend = (service: number) => `${clusterIP(service)} . ${protocol} . ${SERVICE_PORT}`;
  const goto = (service: number) => `goto ${chainOf(service, protocol)}`;
  const target = (service: number) => `${frontend(service)} comment "${titleOf(service)}" : ${goto(service)}`;
  file.write(`\tmap service-ips {\n\t\ttype ipv4_addr . inet_proto . inet_service : verdict\n`);
  file.write(`\t\telements = { ${list(target)} }\n\t}\n`);
  for (const service of numbers) {
    const pods = Array.from({ length: endpoints }, (_, i) => podIP(service * endpoints + i));
    const chain = `\tchain ${chainOf(service, protocol)} {\n\t\t${balanceRule(pods, protocol)}\n\t}\n`;
    if (!file.write(chain)) await once(file, "drain");
  }
  file.end(TAIL);
  await once(file, "close");
}

/**
 * Writes kube-proxy's input of nft for a replaced first endpoint of a Service: it flushes the Service's chain
 * and adds its rule again, with another anonymous map.
 */
export function writeKubeProxyShapeChange(
  path: string,
  { endpoints, protocol: ofCache = "TCP" }: ClusterSize,
  service: number,
): void {
  const protocol = ofCache.toLowerCase();
  const chain = `ip kube-proxy ${chainOf(service, protocol)}`;
  const pods = Array.from({ length: endpoints }, (_, i) =>
    i === 0 ? laterPodIP(service) : podIP(service * endpoints + i),
  );
  writeFileSync(path, `flush chain ${chain}\nadd rule ${chain} ${balanceRule(pods, protocol)}\n`);
}

function balanceRule(pods: readonly string[], protocol: string): string {
  const targets = pods.map((pod, i) => `${i} : ${pod} . ${POD_PORT}`);
  return `meta l4proto ${protocol} dnat ip to numgen random mod ${pods.length} map { ${targets.join(", ")} }`;
}

function titleOf(service: number): string {
  const { namespace, name } = nameOf(service);
  return `${namespace}/${name}:http`;
}

function chainOf(service: number, protocol: string): string {
  const { namespace, name } = nameOf(service);
  const hash = ((service * 2654435761) >>> 0).toString(32).toUpperCase().padStart(8, "A").slice(0, 8);
  return `service-${hash}-${namespace}/${name}/${protocol}/http`;
}

const HEAD = `table ip kube-proxy {
	set nodeport-ips { type ipv4_addr; elements = { 192.0.2.2 }
	}
	map no-endpoint-services { type ipv4_addr . inet_proto . inet_service : verdict; }
	map no-endpoint-nodeports { type inet_proto . inet_service : verdict; }
	map firewall-ips { type ipv4_addr . inet_proto . inet_service : verdict; }
	map service-nodeports { type inet_proto . inet_service : verdict; }
`;

const newJump = (target: string): string => `ct state new jump ${target}`;

const TAIL = `	chain filter-prerouting-pre-dnat { type filter hook prerouting priority dstnat - 10; policy accept; ${newJump("firewall-check")}; }
	chain filter-output-pre-dnat { type filter hook output priority dstnat - 10; policy accept; ${newJump("firewall-check")}; }
	chain filter-input { type filter hook input priority filter; policy accept; ${newJump("nodeport-endpoints-check")}; ${newJump("service-endpoints-check")}; }
	chain filter-forward { type filter hook forward priority filter; policy accept; ${newJump("service-endpoints-check")}; ${newJump("cluster-ips-check")}; }
	chain filter-output { type filter hook output priority filter; policy accept; ${newJump("service-endpoints-check")}; ${newJump("cluster-ips-check")}; }
	chain nat-prerouting { type nat hook prerouting priority dstnat; policy accept; jump services; }
	chain nat-output { type nat hook output priority dstnat; policy accept; jump services; }
	chain nat-postrouting { type nat hook postrouting priority srcnat; policy accept; jump masquerading; }
	chain nodeport-endpoints-check { ip daddr @nodeport-ips meta l4proto . th dport vmap @no-endpoint-nodeports; }
	chain service-endpoints-check { ip daddr . meta l4proto . th dport vmap @no-endpoint-services; }
	chain firewall-check { ip daddr . meta l4proto . th dport vmap @firewall-ips; }
	chain services {
		ip daddr @cluster-ips ip saddr != ${CLUSTER_CIDR} meta mark set meta mark | 0x00004000
		ip daddr . meta l4proto . th dport vmap @service-ips
		ip daddr @nodeport-ips meta l4proto . th dport vmap @service-nodeports
	}
	chain masquerading {
		meta mark & 0x00004000 != 0x00000000 meta mark set meta mark ^ 0x00004000 masquerade fully-random
		ct status dnat ip saddr . ip daddr . meta l4proto . th dport @hairpin-connections masquerade fully-random
	}
	chain cluster-ips-check {
		ip daddr @cluster-ips reject
		ip daddr 10.96.0.0/12 drop
	}
	chain reject-chain { reject; }
}
`;
