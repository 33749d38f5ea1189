import { Counter, Gauge, type Registry } from "prom-client";
import { type ObjectSource, RESOURCE_NAMES } from "../../kube/source.ts";

/**
 * Adds the metrics of how each resource is followed, `nft_proxy_reflector_*` by `resource`: when it was last heard
 * from (seconds since 1970), lists after the first, errors by `kind`, objects held, and whether it is connected.
 * Read from the source whenever scraped.
 */
export function addSourceMetrics(registry: Registry, source: Pick<ObjectSource, "states">): void {
  const base = (name: string, help: string) => ({
    name: `nft_proxy_reflector_${name}`,
    help,
    labelNames: ["resource"] as const,
    registers: [registry],
  });
  new Gauge({
    ...base("last_event_timestamp_seconds", "When a resource was last heard from"),
    collect() {
      forEachState(source, (labels, { lastEventAt }) => this.set(labels, lastEventAt / 1000));
    },
  });
  new Gauge({
    ...base("objects", "Valid objects of a resource"),
    collect() {
      forEachState(source, (labels, { objects }) => this.set(labels, objects));
    },
  });
  new Gauge({
    ...base("connected", "1 while a resource is followed, 0 while it is not"),
    collect() {
      forEachState(source, (labels, { failure }) => this.set(labels, failure === "" ? 1 : 0));
    },
  });
  new Counter({
    ...base("relists_total", "Lists of a resource after the first"),
    collect() {
      this.reset();
      forEachState(source, (labels, { relists }) => this.inc(labels, relists));
    },
  });
  new Counter({
    ...base("errors_total", "Faults in following a resource"),
    labelNames: ["resource", "kind"] as const,
    collect() {
      this.reset();
      forEachState(source, ({ resource }, { errors }) => {
        for (const [kind, count] of Object.entries(errors)) this.inc({ resource, kind }, count);
      });
    },
  });
}

type State = ReturnType<ObjectSource["states"]>["services"];

function forEachState(source: Pick<ObjectSource, "states">, use: (labels: { resource: string }, state: State) => void) {
  const states = source.states();
  for (const resource of RESOURCE_NAMES) use({ resource }, states[resource]);
}
