// A process of transforms may live for months: the relay keeps nothing of the runs that it has answered.
import type { ChildProcess } from "node:child_process";
import { EventEmitter } from "node:events";
import { expect, it } from "vitest";
import type { TransformContext } from "../../core/model/transform.ts";
import { collector } from "../../core/ports/idle.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { TransformWorker } from "../../core/runtime/transforms/worker.ts";

const RUNS = 20_000;
/** A wait that is left behind has some 250 bytes. */
const MOST_BYTES_A_RUN = 60;

/** Answers each run in the next turn. */
function spawn(): ChildProcess {
  const child = new EventEmitter();
  Object.assign(child, {
    kill: () => void child.emit("exit", null, "SIGKILL"),
    send: ({ run }: { run: number }) => void setImmediate(() => child.emit("message", { run, text: "{}" })),
  });
  setImmediate(() => child.emit("message", { ready: true }));
  return child as unknown as ChildProcess;
}

const limits = { timeoutMs: 60_000, memoryMb: 64, workers: 1 };
const workerOf = (from: () => ChildProcess) => new TransformWorker({ spawn: from, limits, clock: systemClock() });
const input = { name: "echo", body: "{}", context: {} as TransformContext };

it("keeps nothing of a run that is over", async () => {
  const worker = workerOf(spawn);
  const collect = collector();
  const used = (): number => {
    collect();
    return process.memoryUsage().heapUsed;
  };
  const runs = async (count: number): Promise<void> => {
    for (let i = 0; i < count; i++) await worker.run(input);
  };
  await runs(RUNS / 10);
  const before = used();
  await runs(RUNS);
  expect((used() - before) / RUNS).toBeLessThan(MOST_BYTES_A_RUN);
  await worker.stop();
});

it("ends a run whose process is gone before it answers", async () => {
  const worker = workerOf(() => {
    const child = spawn();
    child.send = () => child.emit("exit", 3, null);
    return child;
  });
  expect(await worker.run(input)).toMatchObject({ kind: "died" });
  await worker.stop();
});

it("starts no process once it is stopped, also where a run waits for the end of the one before", async () => {
  const spawned: ChildProcess[] = [];
  const worker = workerOf(() => {
    const child = Object.assign(spawn(), { kill: () => true });
    spawned.push(child);
    return child;
  });
  expect(await worker.run(input)).toMatchObject({ kind: "made" });
  worker.retire();
  const running = worker.run(input);
  const stopped = worker.stop();
  spawned[0]?.emit("exit", null, "SIGKILL");
  await stopped;
  expect(await running).toMatchObject({ kind: "unready" });
  expect(spawned).toHaveLength(1);
});
