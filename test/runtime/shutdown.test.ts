// The order and the deadline of a stop, on a clock that the test turns.
import { describe, expect, it } from "vitest";
import { Lifecycle, type Step } from "../../core/runtime/lifecycle.ts";
import { testClock } from "../support/clock.ts";

const never = (): Promise<void> => new Promise(() => undefined);

function lifecycle(steps: readonly Step[], shutdownMs = 8_000) {
  const clock = testClock();
  const failed: string[] = [];
  const made = new Lifecycle({
    steps,
    stopping: steps.map(({ name }) => name).reverse(),
    shutdownMs,
    clock,
    failed: (name, error) => void failed.push(`${name}: ${(error as Error).message}`),
  });
  return Object.assign(made, { clock, failed });
}

const told = (said: string[], name: string, over: Partial<Step> = {}): Step => ({
  name,
  start: () => void said.push(`start ${name}`),
  stop: (graceMs) => void said.push(`stop ${name} ${graceMs}`),
  ...over,
});

describe("a stop", () => {
  it("walks back what was started, gives each its share of what is left, and happens once", async () => {
    const said: string[] = [];
    const run = lifecycle([told(said, "a"), told(said, "b", { share: 1 / 4 }), told(said, "c")]);
    await run.start();
    expect(run.state()).toBe("running");
    await Promise.all([run.stop(), run.stop()]);
    await run.stop();
    expect(said).toEqual(["start a", "start b", "start c", "stop c 8000", "stop b 2000", "stop a 8000"]);
    expect(run.state()).toBe("stopped");
  });

  it("leaves behind what hangs, tells of it, and still stops the rest in time", async () => {
    const said: string[] = [];
    const run = lifecycle([told(said, "storage"), told(said, "source", { share: 1 / 4, stop: never })]);
    await run.start();
    const stopped = run.stop();
    await run.clock.advance(1_999);
    expect(said).not.toContain(expect.stringContaining("stop storage"));
    await run.clock.advance(1);
    await stopped;
    expect(run.failed).toEqual(["source: not done within 2000 ms"]);
    expect(said.at(-1)).toBe("stop storage 6000");
  });

  it("goes on when a part fails to stop", async () => {
    const said: string[] = [];
    const run = lifecycle([told(said, "a"), told(said, "b", { stop: () => Promise.reject(new Error("stuck")) })]);
    await run.start();
    await run.stop();
    expect(run.failed).toEqual(["b: stuck"]);
    expect(said.at(-1)).toBe("stop a 8000");
  });

  it("in the middle of a start lets the step end, starts no other, and stops what was begun", async () => {
    const said: string[] = [];
    const opening = Promise.withResolvers<void>();
    const begun = Promise.withResolvers<void>();
    const run = lifecycle([
      told(said, "a"),
      told(said, "b", { start: () => (begun.resolve(), opening.promise) }),
      told(said, "c"),
    ]);
    const starting = run.start();
    await begun.promise;
    const stopped = run.stop();
    opening.resolve();
    await Promise.all([starting, stopped]);
    expect(said).toEqual(["start a", "stop b 8000", "stop a 8000"]);
    expect(run.state()).toBe("stopped");
  });

  it("does not wait for a start that hangs for longer than half of its time", async () => {
    const said: string[] = [];
    const begun = Promise.withResolvers<void>();
    const run = lifecycle([told(said, "a"), told(said, "b", { start: () => (begun.resolve(), never()) })]);
    const started = run.start();
    await begun.promise;
    const stopped = run.stop();
    await run.clock.advance(4_000);
    await stopped;
    expect(said).toEqual(["start a", "stop b 4000", "stop a 4000"]);
    // Or whoever waits for the start would wait for ever.
    await started;
  });

  it("follows a start that fails, and the start tells why", async () => {
    const said: string[] = [];
    const run = lifecycle([told(said, "a"), told(said, "b", { start: () => Promise.reject(new Error("no port")) })]);
    await expect(run.start()).rejects.toThrow("no port");
    expect(said).toEqual(["start a", "stop b 8000", "stop a 8000"]);
    await run.stop();
    expect(run.state()).toBe("stopped");
  });
});
