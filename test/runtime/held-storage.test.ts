// The storage that the threads of a process share: its faults are its own, as they are where one thread has it.
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Plan } from "../../core/ports/plan.ts";
import type { ClaimRequest, Storage } from "../../core/ports/storage.ts";
import { createMetrics } from "../../core/runtime/observability/index.ts";
import { holdStorage, type HeldStorage } from "../../core/runtime/threads/held-storage.ts";
import { openStorageClient } from "../../core/runtime/threads/storage-client.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { memory } from "../../plugins/storage/memory.ts";
import { claimOne, due, endOf, enqueue } from "../conformance/queue.ts";
import { testFolder } from "../support/folder.ts";
import { quietLog } from "../support/quiet.ts";

const clock = systemClock();
const inMemory = memory();

/** @param change what `setup` returns in place of a good storage */
function hold(change: (storage: Storage) => unknown) {
  const log = quietLog();
  const own: Plan["storage"] = {
    ...inMemory,
    name: "wild-1",
    setup: async (context) => change(await inMemory.setup(context)) as Storage,
  };
  const plan = {
    ...{ storage: own, sources: [], transports: [], observers: [], auth: {} },
    ...{ guard: { allow: [] }, dataDir: join(testFolder(), "data"), configDir: testFolder() },
  } as unknown as Plan;
  const around = {
    clock,
    log: { ...log, setLevel: () => undefined, hideWith: () => undefined },
    metrics: createMetrics(),
  };
  return { log, held: holdStorage(plan, around as unknown as Parameters<typeof holdStorage>[1]) };
}

/** Runs it with the storage as a thread has it. */
async function within(held: HeldStorage, run: (storage: Storage) => Promise<unknown>): Promise<void> {
  const { port, left } = held.connect();
  await run(await openStorageClient(port, clock));
  await left();
  await held.close();
}

describe("a storage that several threads share", () => {
  it("cannot start, by name, when its setup returns none", async () => {
    for (const nothing of [undefined, {}, 5])
      await expect(hold(() => nothing).held).rejects.toMatchObject({
        exitCode: 78,
        message: expect.stringContaining("the storage plug-in wild-1 cannot start") as unknown,
      });
  });

  it("is named for what it throws", async () => {
    const { log, held } = hold((storage) => ({
      ...storage,
      commit: () => Promise.reject(new Error("broken")),
      getMany: () => Promise.reject(new Error("broken")),
    }));
    const shared = await held;
    await within(shared, async (storage) => {
      await expect(storage.commit([])).rejects.toMatchObject({ fault: "uncertain" });
      await expect(storage.getMany(["a"])).rejects.toMatchObject({ fault: "unavailable" });
    });
    expect(log.lines.map(({ fields }) => [fields["plugin"], fields["action"]])).toEqual([
      ["wild-1", "commit"],
      ["wild-1", "getMany"],
    ]);
    const state = expect.stringContaining("getMany") as unknown;
    expect(shared.parts()).toEqual({ "storage:wild-1": { ready: false, state, required: false } });
  });

  it("may keep anything in its leases, and one answer that cannot cross to a thread fails alone", async () => {
    const { held } = hold((storage) => ({
      ...storage,
      status: () => Promise.resolve({ rows: 1, reopen: () => undefined }),
      queue: {
        ...storage.queue,
        claim: async (request: ClaimRequest) =>
          (await storage.queue.claim(request)).map((lease) => ({ ...lease, lapse: () => undefined })),
      },
    }));
    const shared = await held;
    await within(shared, async (storage) => {
      const [status, item] = await Promise.allSettled([storage.status(), storage.getItem("a")]);
      expect(status).toMatchObject({ status: "rejected", reason: { message: expect.stringContaining("cloned") } });
      expect(item).toEqual({ status: "fulfilled", value: undefined });
      const line = due("a", 1, clock.now());
      await enqueue(storage, line);
      const lease = await claimOne(storage.queue);
      expect(lease).toMatchObject(line);
      await storage.queue.settle(lease, [endOf(lease)]);
      expect(await storage.queue.depth()).toMatchObject({ waiting: 0, leased: 0 });
    });
  });
});
