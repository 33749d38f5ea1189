import type { Clock } from "../../base/clock.ts";
import { messageOf } from "../../base/errors.ts";
import type { ApiClient } from "../client/client.ts";
import { Deadline } from "../client/deadline.ts";
import {
  type IgnoredService,
  type LoadBalancersAddress,
  type UnservedServices,
  unservedAmong,
} from "../decode/ignored-service.ts";
import { listPages } from "./list-pages.ts";
import { resources } from "./resources.ts";

/** Milliseconds without data after which the list fails: somebody waits for it. */
const SILENCE = 3000;

/** Lists the Services that a watch of {@link resources} excludes. Never rejects. */
export async function listUnservedServices(client: ApiClient, clock: Clock): Promise<UnservedServices> {
  const ignored: IgnoredService[] = [];
  const loadBalancers: LoadBalancersAddress[] = [];
  const take = (service: unknown): void => {
    const found = unservedAmong([service]);
    ignored.push(...found.ignored);
    loadBalancers.push(...found.loadBalancers);
  };
  const settings = { client, deadline: () => new Deadline(clock), silence: SILENCE, now: () => clock.now() };
  try {
    await listPages({ ...resources("").services, selectors: {} }, settings, take);
    return { ignored, loadBalancers };
  } catch (error) {
    return { ignored: [], loadBalancers: [], problem: messageOf(error) };
  }
}
