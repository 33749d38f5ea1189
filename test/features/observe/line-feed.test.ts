import { describe, expect, test } from "vitest";
import { LineFeed } from "../../../src/features/observe/line-feed.ts";
import { ManualClock } from "../../support/manual-clock.ts";

function feeding(rate: number) {
  const clock = new ManualClock();
  const feed = new LineFeed(clock, rate, (count) => `${count} omitted`);
  const push = (count: number) => {
    for (let line = 0; line < count; line++) feed.push(() => "line");
  };
  return { clock, feed, push };
}

async function collected(feed: LineFeed): Promise<string[]> {
  const lines: string[] = [];
  for await (const line of feed.lines()) lines.push(line);
  return lines;
}

describe("a feed of lines", () => {
  test("passes on as many lines a second as its rate, and says how many it omitted", async () => {
    const { clock, feed, push } = feeding(2);
    const lines = collected(feed);
    push(5);
    await new Promise((resolve) => setImmediate(resolve));
    clock.advance(1000);
    push(1);
    feed.end();
    expect(await lines).toEqual(["line", "line", "3 omitted", "line"]);
    expect(feed.omitted).toBe(3);
  });

  test("says so a second later although no line follows", async () => {
    const { clock, feed, push } = feeding(1);
    const lines = feed.lines();
    push(3);
    expect((await lines.next()).value).toBe("line");
    const next = lines.next();
    clock.advance(1000);
    expect((await next).value).toBe("2 omitted");
  });

  test("does not make lines that it omits, nor keep lines that nobody reads", async () => {
    const { clock, feed } = feeding(3);
    let made = 0;
    for (let second = 0; second < 100; second++) {
      for (let line = 0; line < 50; line++) feed.push(() => `line ${++made}`);
      clock.advance(1000);
    }
    expect(made).toBe(3);
    feed.end();
    expect(await collected(feed)).toEqual(["line 1", "line 2", "line 3", "47 omitted", "4950 omitted"]);
  });

  test("ends with the error that ended it first", async () => {
    const feed = new LineFeed(new ManualClock(), 10, () => "");
    feed.end(new Error("gone"));
    feed.end();
    await expect(feed.lines().next()).rejects.toThrow("gone");
  });

  test("ends with the error that ends it, after its lines", async () => {
    const { feed, push } = feeding(3);
    push(1);
    feed.end(new Error("socat ended"));
    const lines = feed.lines();
    expect((await lines.next()).value).toBe("line");
    await expect(lines.next()).rejects.toThrow("socat ended");
  });
});
