import type {
  CommandHost,
  CommandObjects,
  CommandSubject,
  ExplainedRefusal,
} from "../../../src/features/seam/command.ts";
import { cacheOf, endpoint, named, port, renderAll, service, slice } from "../../support/build.ts";
import { FakeFlowListener } from "../../support/fake-flow-listener.ts";
import { FakeFlowTable } from "../../support/fake-flow-table.ts";
import { FakeHostFiles } from "../../support/fake-host-files.ts";
import { ManualClock } from "../../support/manual-clock.ts";

/** The time of the host's clock. */
export const NOW: number = Date.UTC(2026, 10, 20, 12);

const WEB = slice({
  endpoints: [endpoint("10.244.1.5", { pod: "default/web-1", nodeName: "node-2" })],
});
const CLIENTS = slice({ service: "shop/jobs", endpoints: [endpoint("10.244.1.9", { pod: "shop/job-7" })] });

/** Objects with a Service `default/web`, whose clients may be the pod `shop/job-7`. */
export const OBJECTS = {
  services: [
    service({
      clusterIPs: ["10.96.0.10"],
      ports: [port(80, { name: "http" }), port(53, { name: "dns", protocol: "udp" })],
    }),
    service({
      name: "shop/jobs",
      clusterIPs: ["10.96.0.11", "fd00:10:96::11"],
      ports: [port(80, { nodePort: 30_080 })],
    }),
  ],
  slices: [{ ...WEB, ports: [{ name: "http", protocol: "tcp" as const, port: 8080 }] }, CLIENTS],
};

/** A refusal of the pod `shop/job-7` and of a client without a name. */
export const REFUSAL: ExplainedRefusal = {
  address: "10.96.0.11",
  port: 80,
  protocol: "tcp",
  service: named("shop/jobs"),
  servicePort: "",
  clients: [
    { address: "10.244.1.9", pod: "shop/job-7", packets: 3, lastAt: "2026-11-20T11:59:58.000Z" },
    { address: "192.0.2.1", pod: "", packets: 1, lastAt: "2026-11-20T11:59:50.000Z" },
  ],
  cause: "no-endpoints",
  message: "no endpoint",
};

/** What a test gives the command. */
interface HostOptions {
  readonly flags?: Readonly<Record<string, string | true>>;
  readonly format?: string;
  readonly subject?: CommandSubject;
  readonly files?: Readonly<Record<string, string>>;
  /** Refusals by reading: those of the last hour first. */
  readonly refusals?: readonly (readonly ExplainedRefusal[])[];
}

/** A host of a command, with fakes of the kernel. */
export function commandHost(options: HostOptions = {}) {
  const { flags = {}, format = "text", subject = {}, refusals = [[]], files = {} } = options;
  const clock = new ManualClock(NOW);
  const [listener, table] = [new FakeFlowListener(), new FakeFlowTable()];
  let interrupt: () => void = () => {};
  const interrupted = new Promise<void>((resolve) => {
    interrupt = resolve;
  });
  let loads = 0;
  let objects = objectsOf();
  const host: CommandHost = {
    clock,
    files: new FakeHostFiles(files),
    flows: table,
    listenToFlows: listener.listen,
    format,
    isSet: (flag) => flags[flag] === true,
    text: (flag) => (typeof flags[flag] === "string" ? flags[flag] : undefined),
    subject,
    objects: async () => {
      loads += 1;
      return objects;
    },
    refusals: async function* (stop) {
      yield* refusals;
      await stop;
    },
    interrupted: () => interrupted,
  };
  /** From now on, the objects are newer ones. */
  const renew = () => {
    objects = objectsOf();
  };
  return { host, clock, listener, table, interrupt, renew, loads: () => loads };
}

function objectsOf(): CommandObjects {
  return {
    cache: cacheOf(OBJECTS),
    state: renderAll(OBJECTS).state,
    localAddresses: new Set(["192.0.2.2"]),
  };
}
