import type { ServiceName } from "../../model/ids.ts";
import type { ServicePort } from "../../model/service-port.ts";
import type { Question } from "./packet.ts";

/** The question to explain: one connection, a Service, one port of it by name or number, or all Services. */
export type ExplainQuery =
  | { readonly kind: "connection"; readonly question: Question }
  | {
      readonly kind: "service";
      readonly named: ServiceArgument;
      readonly from: Pick<Question, "fromAddress" | "source">;
    }
  | {
      readonly kind: "all";
      /** Only frontends that are refused, dropped or lost to another Service. */
      readonly problemsOnly: boolean;
      readonly from: Pick<Question, "fromAddress" | "source">;
      /** Absent for all namespaces. */
      readonly namespace?: string;
    };

/** A Service, or one of its ports, as `--service` names it. */
export interface ServiceArgument {
  readonly service: ServiceName;
  /** Its name or number. */
  readonly port?: string;
}

/** Whether a service port is one that was named. */
export function isNamed({ service, spec }: ServicePort, { service: name, port }: ServiceArgument): boolean {
  return service.name === name && (port === undefined || port === spec.name || port === String(spec.port));
}
