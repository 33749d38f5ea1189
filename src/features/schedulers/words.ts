import type { Service } from "../../model/service.ts";
import type { DrawWords, ExplainedDraw, FeatureWords } from "../seam/feature.ts";
import {
  defaultScheduler,
  ownSchedulerOf,
  SCHEDULER_ANNOTATION,
  type Scheduler,
  WEIGHT_ANNOTATION,
} from "./scheduler.ts";

type Choice = (draw: ExplainedDraw) => string;

const endpoints: Choice = (draw) => draw.endpoints;
const slots: Choice = ({ count }) => `${count} slots`;
const shared: Choice = ({ count }) => `${count} slots, which the endpoints share by weight`;

export const words: FeatureWords = {
  topic: "scheduler",
  badge: (service, context) => {
    const preset = defaultScheduler(context);
    return ownSchedulerOf(service) ?? (preset === "random" ? undefined : `${preset} (--scheduler)`);
  },
  draws: {
    slots: choice(
      "random",
      (draw) => `one of ${slots(draw)} at random`,
      (draw) => `one of ${shared(draw)}`,
    ),
    "round-robin": turns(endpoints, endpoints),
    "round-robin-slots": turns(slots, shared),
    "source-hash": choice(
      "source-hash",
      (draw) => `one of ${slots(draw)}, by the hash of the client's address`,
      ({ count, own }) =>
        own === undefined
          ? `one of ${count} slots by the client's address (--from-ip names a client)`
          : `this client has slot ${own} of ${count}`,
    ),
    "flow-hash": choice(
      "flow-hash",
      (draw) => `one of ${slots(draw)}, by the hash of addresses and ports`,
      (draw) => `one of ${slots(draw)} by the addresses and ports of each connection`,
    ),
  },
};

function turns(step: Choice, note: Choice): DrawWords {
  return choice(
    "round-robin",
    (draw) => `the next of ${step(draw)} in turn`,
    (draw) => `the next of ${note(draw)}; all Services with the same number share one counter`,
  );
}

function choice(scheduler: Scheduler, step: Choice, note: Choice): DrawWords {
  return {
    step,
    note: (draw, service) => `${scheduler} (${originOf(scheduler, service)}): ${note(draw)}`,
  };
}

function originOf(scheduler: Scheduler, service: Service | undefined): string {
  if (service !== undefined && ownSchedulerOf(service) === scheduler)
    return `annotation ${SCHEDULER_ANNOTATION}`;
  return scheduler === "random" ? `weights by the annotation ${WEIGHT_ANNOTATION}` : "--scheduler";
}
