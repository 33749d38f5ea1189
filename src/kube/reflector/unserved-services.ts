import type { Clock } from "../../base/clock.ts";
import { messageOf } from "../../base/errors.ts";
import type { ApiClient } from "../client/client.ts";
import { Deadline } from "../client/deadline.ts";
import {
  type IgnoredService,
  ignoredService,
  type LoadBalancersAddress,
  loadBalancersAddresses,
} from "../decode/ignored-service.ts";
import { listPages } from "./list-pages.ts";
import { resources } from "./resources.ts";

/** Services, and addresses of Services, that nft-proxy does not serve. */
export interface UnservedServices {
  readonly ignored: readonly IgnoredService[];
  readonly loadBalancers: readonly LoadBalancersAddress[];
  /** Why they are not known; absent when they are. */
  readonly problem?: string;
}

/** Milliseconds without data after which the list fails: somebody waits for it. */
const SILENCE = 3000;

/** Lists the Services that a watch of {@link resources} excludes. Never rejects. */
export async function listUnservedServices(client: ApiClient, clock: Clock): Promise<UnservedServices> {
  const ignored: IgnoredService[] = [];
  const loadBalancers: LoadBalancersAddress[] = [];
  const take = (service: unknown): void => {
    ignored.push(...[ignoredService(service) ?? []].flat());
    loadBalancers.push(...loadBalancersAddresses(service));
  };
  const settings = { client, deadline: () => new Deadline(clock), silence: SILENCE, now: () => clock.now() };
  try {
    await listPages({ ...resources("").services, selectors: {} }, settings, take);
    return { ignored, loadBalancers };
  } catch (error) {
    return { ignored: [], loadBalancers: [], problem: messageOf(error) };
  }
}
