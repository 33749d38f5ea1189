import { Counter, Gauge, type Registry } from "prom-client";

/** What the metrics of the process need to know of it. */
export interface ProcessUsage {
  /** User and system time since the start, microseconds: `process.cpuUsage`. */
  cpu(): { readonly user: number; readonly system: number };
  /** Resident memory, bytes. */
  residentBytes(): number;
  /** Milliseconds since 1970. */
  readonly startedAt: number;
}

/**
 * Adds the `process_*` metrics that every Prometheus client has. prom-client's own collector is not used: its
 * event-loop monitor wakes the process a hundred times a second.
 */
export function addProcessMetrics(registry: Registry, usage: ProcessUsage): void {
  const registers = [registry];
  new Counter({
    name: "process_cpu_seconds_total",
    help: "User and system CPU time",
    registers,
    collect() {
      const { user, system } = usage.cpu();
      this.reset();
      this.inc((user + system) / 1e6);
    },
  });
  new Gauge({
    name: "process_resident_memory_bytes",
    help: "Resident memory",
    registers,
    collect() {
      this.set(usage.residentBytes());
    },
  });
  new Gauge({ name: "process_start_time_seconds", help: "When the process started", registers }).set(
    usage.startedAt / 1000,
  );
}
