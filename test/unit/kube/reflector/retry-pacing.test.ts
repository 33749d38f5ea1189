import { Readable } from "node:stream";
import { describe, expect, test } from "vitest";
import {
  ApiFailure,
  failureOfAnswer,
  failureOfErrorEvent,
  parseRetryAfter,
} from "../../../../src/kube/client/api-failure.ts";
import { Availability } from "../../../../src/kube/reflector/availability.ts";
import { RetryPacing, type Wait } from "../../../../src/kube/reflector/retry-pacing.ts";
import { linesOf } from "../../../../src/kube/reflector/watch.ts";
import { ManualClock } from "../../../support/manual-clock.ts";

const NOW = Date.UTC(2026, 10, 20, 12);

const refused = (retryAfter = 0) => new ApiFailure("server", "refused", { retryAfter });
const clock = new ManualClock();
const pacing = (random: () => number) =>
  new RetryPacing(clock, random, new Availability(clock, random, () => 0));
const milliseconds = (wait: Wait) => (wait === "turn" ? -1 : Math.round(wait));

describe("back-off", () => {
  test("has full jitter: from zero to a limit that doubles up to the cap, forever", () => {
    const highest = pacing(() => 0.999_999);
    const waits = Array.from({ length: 2000 }, () => milliseconds(highest.afterFailure(refused(), true)));
    expect(waits.slice(0, 8)).toEqual([800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000]);
    expect(waits.at(-1)).toBe(30_000);
    expect(milliseconds(pacing(() => 0).afterFailure(refused(), true))).toBe(0);
  });

  test("is at least what the server asks for, up to 5 minutes", () => {
    const half = pacing(() => 0.5);
    const waits = [20_000, 20_000, 9_000_000].map((wanted) =>
      milliseconds(half.afterFailure(refused(wanted), true)),
    );
    expect(waits).toEqual([20_400, 20_800, 301_600]);
    half.reset();
    expect(milliseconds(half.afterFailure(refused(), true))).toBe(400);
  });
});

test("a version that expires in a watch that went well waits 3 s at most, one that a server tells the next watch up to 30", () => {
  const highest = pacing(() => 0.999_999);
  const expired = failureOfErrorEvent({ code: 410, reason: "Expired" });
  highest.reset();
  expect(milliseconds(highest.afterFailure(expired, true))).toBe(3000);
  highest.reset();
  highest.answered();
  expect(milliseconds(highest.afterFailure(expired, true))).toBe(25_000);
});

describe("a failed answer", () => {
  test("has a Retry-After in seconds or as a date", () => {
    const cases = [
      "7",
      " 7 ",
      new Date(NOW + 7000).toUTCString(),
      new Date(NOW - 7000).toUTCString(),
      "soon",
      "-7",
      "",
    ];
    expect(cases.map((value) => parseRetryAfter(value, NOW))).toEqual([7000, 7000, 7000, 0, 0, 0, 0]);
    expect(parseRetryAfter(undefined, NOW)).toBe(0);
  });

  test("as an ERROR event may ask for a wait", () => {
    const failure = failureOfErrorEvent({
      code: 429,
      message: "slow down",
      details: { retryAfterSeconds: 3 },
    });
    expect(failure).toMatchObject({ kind: "throttled", retryAfter: 3000, relist: false });
    expect(failure.message).toContain("slow down");
  });

  test("asks for a list when the request was rejected, unless the same request may be accepted later", () => {
    const statuses = [400, 401, 403, 404, 408, 410, 422, 429, 499, 500, 503];
    const relists = statuses.filter((status) => failureOfAnswer(status, {}, "", NOW).relist);
    expect(relists).toEqual([400, 404, 410, 422, 499]);
  });

  test("has the message of its Status, or the first words of its body", () => {
    const status = failureOfAnswer(403, {}, '{"message":"services is forbidden"}', NOW);
    expect(status.message).toBe("HTTP 403: services is forbidden");
    expect(failureOfAnswer(502, {}, "<html>Bad gateway</html>", NOW).message).toBe(
      "HTTP 502: <html>Bad gateway</html>",
    );
    expect(failureOfAnswer(503, {}, "", NOW).message).toBe("HTTP 503: no message");
  });
});

test("a line of a watch without an end is refused", async () => {
  const megabyte = " ".repeat(1024 * 1024);
  const lines = linesOf(Readable.from(Array.from({ length: 40 }, () => megabyte)));
  await expect(Readable.from(lines).toArray()).rejects.toThrow("longer than");
});
