/**
 * Reads a list of ports and ranges as sysctl has it: `80,30000-30002`, empty for none.
 * Source: Documentation/networking/ip-sysctl.rst, ip_local_reserved_ports
 */
export function parsePortList(text: string): Set<number> {
  const ports = new Set<number>();
  for (const item of text.trim().split(",")) {
    const [, first, last] = /^(\d+)(?:-(\d+))?$/.exec(item) ?? [];
    if (first === undefined) continue;
    for (let port = Number(first); port <= Number(last ?? first); port++) ports.add(port);
  }
  return ports;
}

/** Formats ports as sysctl does: sorted, neighbours as ranges. */
export function formatPortList(ports: ReadonlySet<number>): string {
  const ranges: [number, number][] = [];
  for (const port of [...ports].sort((a, b) => a - b)) {
    const last = ranges.at(-1);
    if (last !== undefined && last[1] === port - 1) last[1] = port;
    else ranges.push([port, port]);
  }
  return ranges.map(([first, last]) => (first === last ? String(first) : `${first}-${last}`)).join(",");
}
