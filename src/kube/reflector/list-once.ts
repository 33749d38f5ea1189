import type { Clock } from "../../base/clock.ts";
import { AppError, messageOf } from "../../base/errors.ts";
import { type ApiFailure, asApiFailure } from "../client/api-failure.ts";
import type { ApiClient } from "../client/client.ts";
import { TimedRequest } from "../client/timed-request.ts";
import type { Decoders } from "../decode/decoders.ts";
import {
  type IgnoredService,
  type LoadBalancersAddress,
  type UnservedServices,
  unservedAmong,
} from "../decode/ignored-service.ts";
import { objectName } from "../decode/metadata.ts";
import type { ListedObjects } from "../source.ts";
import { listObjects } from "./list.ts";
import { type Resource, resources, withoutFieldSelector } from "./resources.ts";

/** Maximum time without data from a list. Milliseconds. */
const SILENCE = 15_000;

/** Options of {@link listOnce}. */
export interface ListOnceOptions {
  readonly client: ApiClient;
  /** The API server, for errors. */
  readonly server: string;
  /** The name of the Node that nft-proxy runs on. */
  readonly nodeName: string;
  readonly decoders: Decoders;
  readonly clock: Clock;
  /** Called for each invalid object; `object` is `Service namespace/name`. */
  readonly onInvalid: (object: string, reason: string) => void;
  /**
   * Called with every Service as the API server sent it. With it, the Services of other proxies are listed
   * too.
   */
  readonly onService?: ((service: unknown) => void) | undefined;
}

/**
 * Lists every resource once, without retries, for commands that print and exit.
 * @throws AppError API_UNAVAILABLE for the first list that fails, or of which nothing arrives for 15 s
 */
export async function listOnce(options: ListOnceOptions): Promise<ListedObjects> {
  const { services, endpointslices, nodes, servicecidrs } = resources(options.nodeName);
  const { decoders, onService } = options;
  const decodeService = (service: unknown) => {
    onService?.(service);
    return decoders.services(service);
  };
  return {
    nodes: await list(options, nodes, decoders.nodes),
    serviceCIDRs: await list(options, servicecidrs, decoders.servicecidrs),
    services: await list(options, onService ? { ...services, selectors: {} } : services, decodeService),
    endpointSlices: await list(options, endpointslices, decoders.endpointslices),
  };
}

async function list<T>(
  options: ListOnceOptions,
  resource: Resource,
  decode: (object: unknown) => T | undefined,
): Promise<T[]> {
  const { client, clock, onInvalid } = options;
  const found: T[] = [];
  const take = (object: unknown): void => {
    try {
      const value = decode(object);
      if (value !== undefined) found.push(value);
    } catch (error) {
      onInvalid(objectName(resource.kind, object), messageOf(error));
    }
  };
  try {
    await listObjects(resource, new TimedRequest(client, clock, SILENCE), take);
  } catch (error) {
    const failure = asApiFailure(error);
    const other = failure.status === 400 ? withoutFieldSelector(resource) : undefined;
    if (other !== undefined) return await list(options, other, decode);
    if (!(failure.status === 404 && resource.optional)) throw unavailable(resource, options.server, failure);
  }
  return found;
}

function unavailable({ name }: Resource, server: string, failure: ApiFailure): AppError {
  const hint =
    failure.kind === "unauthorized" || failure.kind === "forbidden"
      ? `these credentials must be allowed to list ${name}; --from reads objects from files instead`
      : "is this the right cluster (--kubeconfig, --context, --master)? --from reads objects from files instead";
  const message = `cannot list ${name} at ${server}: ${failure.message}`;
  return new AppError("API_UNAVAILABLE", message, { hint, cause: failure });
}

/** Maximum time without data from the list. Short, because a user waits for it. Milliseconds. */
const UNSERVED_SILENCE = 3000;

/** Lists the Services that a watch of {@link resources} excludes. Never rejects. */
export async function listUnservedServices(client: ApiClient, clock: Clock): Promise<UnservedServices> {
  const ignored: IgnoredService[] = [];
  const loadBalancers: LoadBalancersAddress[] = [];
  const take = (service: unknown): void => {
    const found = unservedAmong([service]);
    ignored.push(...found.ignored);
    loadBalancers.push(...found.loadBalancers);
  };
  try {
    const request = new TimedRequest(client, clock, UNSERVED_SILENCE);
    await listObjects({ ...resources("").services, selectors: {} }, request, take);
    return { ignored, loadBalancers };
  } catch (error) {
    return { ignored: [], loadBalancers: [], problem: messageOf(error) };
  }
}
