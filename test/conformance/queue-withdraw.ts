/** The law of `Queue.withdraw`: a line is moved or ended by hand, but never from under a node that has leased it. */
import { expect } from "vitest";
import { ConflictError, LeaseLostError } from "../../core/model/errors.ts";
import { DUE } from "../../core/model/schema.ts";
import type { Due } from "../../core/model/delivery.ts";
import type { Change, Storage } from "../../core/ports/storage.ts";
import { claim, claimOne, due, endOf, enqueue, lineOf } from "./queue.ts";
import type { Bench } from "./storage.ts";

/** Deletes the line as it was read. */
const dropOf = (one: Due): Change => ({ op: "delete", key: DUE.key(one), if: DUE.write(one) });

const moveOf = (from: Due, to: Due): readonly Change[] => [dropOf(from), lineOf(to)];

export function withdrawLaws({ open, second, law, harness }: Bench): void {
  const now = (): number => harness.clock.now();
  const keys = async (storage: Storage): Promise<readonly string[]> =>
    (await storage.range("due:")).map(({ key }) => key);

  law("ends a line that waits, so that nobody claims it", async () => {
    const storage = await open();
    const [gone, stays] = [due("a", 1, now() - 5), due("a", 2, now() - 4)];
    await enqueue(storage, gone, stays);
    expect(await storage.queue.withdraw(gone, [dropOf(gone)])).toBe(true);
    expect(await claimOne(storage.queue)).toMatchObject(stays);
    expect(await keys(storage)).toEqual([DUE.key(stays)]);
    await storage.queue.sweep();
    expect(await claim(storage.queue)).toEqual([]);
    expect(await storage.queue.depth()).toMatchObject({ waiting: 0, leased: 1 });
  });

  law("moves a line of the future to now, where it is claimed once", async () => {
    const storage = await open();
    const later = due("a", 1, now() + 3_600_000, { attempts: 2 });
    await enqueue(storage, later);
    const soon = { ...later, dueAt: now(), waitMs: 0 };
    expect(await storage.queue.withdraw(later, moveOf(later, soon), soon)).toBe(true);
    const lease = await claimOne(storage.queue);
    expect(lease).toMatchObject(soon);
    await storage.queue.settle(lease, [endOf(lease)]);
    await harness.clock.advance(3_600_000);
    await storage.queue.sweep();
    expect(await claim(storage.queue)).toEqual([]);
  });

  law("changes nothing of a line that is leased, and leaves the lease to its holder", async () => {
    const storage = await open();
    const one = due("a", 1, now());
    await enqueue(storage, one);
    const lease = await claimOne(storage.queue);
    expect(await storage.queue.withdraw(one, [dropOf(one)])).toBe(false);
    expect(await keys(storage)).toEqual([DUE.key(one)]);
    expect(await storage.queue.extend(lease)).toBe(true);
    const keep = due("a", 1, now() + 10_000, { attempts: 1 });
    await storage.queue.settle(lease, [endOf(one), lineOf(keep)], { keep });
    const soon = { ...keep, dueAt: now() };
    expect(await storage.queue.withdraw(keep, moveOf(keep, soon), soon)).toBe(false);
    expect(await storage.queue.extend(lease)).toBe(true);
    await storage.queue.settle(lease, [endOf(keep)]);
    expect(await keys(storage)).toEqual([]);
  });

  law("gives the line back as it is when its changes are refused", async () => {
    const storage = await open();
    const [one, unknown] = [due("a", 1, now()), due("a", 2, now())];
    await enqueue(storage, one);
    // Written, but not told to the queue.
    await storage.commit([lineOf(unknown)]);
    const wrong: Change = { op: "check", key: "meta:none", if: "something" };
    for (const line of [one, unknown])
      await expect(storage.queue.withdraw(line, [dropOf(line), wrong])).rejects.toBeInstanceOf(ConflictError);
    const claimed = [...(await claim(storage.queue)), ...(await claim(storage.queue))];
    expect(claimed.map((due) => DUE.key(due)).toSorted()).toEqual([one, unknown].map((due) => DUE.key(due)));
  });

  law("and a claim at the same time never both get a line", async () => {
    const storage = await open();
    const lines = Array.from({ length: 40 }, (_, n) => due("a", n, now() - 1));
    await enqueue(storage, ...lines);
    const withdrawn = lines.map((line) => storage.queue.withdraw(line, [dropOf(line)]));
    const claimed: string[] = [];
    for (let i = 0; i < 5; i++) claimed.push(...(await claim(storage.queue, { limit: 10 })).map((due) => DUE.key(due)));
    const got = await Promise.all(withdrawn);
    const taken = lines.filter((_, n) => got[n]).map((due) => DUE.key(due));
    claimed.push(...(await claim(storage.queue, { limit: 40 })).map((due) => DUE.key(due)));
    expect([...taken, ...claimed].toSorted()).toEqual(lines.map((due) => DUE.key(due)).toSorted());
    expect(new Set(await keys(storage))).toEqual(new Set(claimed));
  });

  law(
    "takes the line of a silent holder, who can change nothing any more",
    async () => {
      const storage = await open();
      const one = due("a", 1, now());
      await enqueue(storage, one);
      const lease = await claimOne(storage.queue);
      await harness.lapse?.(storage);
      expect(await storage.queue.withdraw(one, [dropOf(one)])).toBe(true);
      await expect(storage.queue.settle(lease, [endOf(one)])).rejects.toBeInstanceOf(LeaseLostError);
      expect(await storage.queue.depth()).toMatchObject({ waiting: 0, leased: 0 });
    },
    "lapse",
  );

  law(
    "sees the leases of other nodes",
    async () => {
      const storage = await open();
      const other = await second(storage);
      const one = due("a", 1, now());
      await enqueue(storage, one);
      const lease = await claimOne(storage.queue);
      expect(await other.queue.withdraw(one, [dropOf(one)])).toBe(false);
      await storage.queue.release(lease, now() + 60_000);
      expect(await other.queue.withdraw(one, [dropOf(one)])).toBe(true);
      await harness.clock.advance(60_000);
      expect(await claim(storage.queue)).toEqual([]);
    },
    "nodes",
  );
}
