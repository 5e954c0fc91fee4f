// A damaged line of a fan-out: what is written is not sent again, and what is not written yet is not lost.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { StorageError } from "../../core/model/errors.ts";
import { DELIVERY, EVENT, FANOUT_LINES, isFanoutQueue } from "../../core/model/schema.ts";
import type { Storage } from "../../core/ports/storage.ts";
import type { TestClock } from "../support/clock.ts";
import { flipped, PATIENCE, settled, stageOf, watching } from "../support/damage.ts";
import type { TestPath } from "../support/path.ts";
import { everyStorage } from "../support/storages.ts";
import * as wide from "../support/wide.ts";

const WRITTEN = 10;

/** What becomes of a line that says `key_1 13 0 10 0`: 13 are left to write, 10 are written. */
const DAMAGES: readonly ((text: string) => string)[] = [
  () => "torn",
  (text) => text.replace(" 10 ", " 11 "),
  (text) => text.replace(" 10 ", " 50 "),
  (text) => text.replace(" 13 ", " 12 "),
  (text) => flipped(text, fc.sample(fc.nat(1_000_000), 1)[0] as number),
];

const ofEach = ({ sent }: TestPath): string[] =>
  sent.map(({ headers, subscriptionId }) => `${String(headers["webhook-id"])} ${subscriptionId}`);

describe.each(everyStorage())("on $name", (any) => {
  const { missing } = any;
  const begin = stageOf(any, (options) =>
    wide.widePath(options?.clock as TestClock, options?.storage as Storage, options),
  );

  /**
   * Publishes to 23 subscriptions and stops the relay when ten deliveries of each event are written and made.
   * @returns `undefined` where what it knows of due lines ends with the process
   */
  async function interrupted(count: number) {
    const { relay, again, storage } = await begin();
    if (again === undefined) return undefined;
    const { metrics, count: counted } = watching();
    const before = await relay({ metrics, retry: { attempts: 1 } });
    const ids = await wide.subscribers(before, 23);
    const settle = storage.queue.settle.bind(storage.queue);
    storage.queue.settle = async (lease, ...rest) => {
      const isThird = isFanoutQueue(lease.subscriptionId) && lease.attempts >= WRITTEN;
      if (isThird) throw new StorageError("broken", "the third page is not written");
      await settle(lease, ...rest);
    };
    const events = await wide.publishMany(before, count);
    await before.start();
    await before.whenSent(count * WRITTEN);
    const stored = async (): Promise<number> => (await storage.range("delivery:")).length;
    await expect.poll(stored, PATIENCE).toBe(count * WRITTEN);
    await before.parts.dispatcher.stop(0);
    await before.parts.sweeper.stop();
    const lines = await storage.range(FANOUT_LINES);
    expect(lines.map(({ value }) => value)).toEqual(events.map(() => "key_1 13 0 10 0"));
    /** Starts the relay again on what is stored, and lets it work until nothing is due. */
    const goOn = async (): Promise<TestPath> => {
      await again();
      const after = await relay({ metrics, retry: { attempts: 1 } });
      await after.start();
      await settled(after);
      return after;
    };
    return { before, storage, ids, events, lines, counted, goOn };
  }

  it.skipIf(missing)("a fan-out whose line is damaged goes on where it was", { timeout: 180_000 }, async (at) => {
    const found = await interrupted(DAMAGES.length);
    if (found === undefined) return at.skip("what it knows of due lines ends with the process");
    const { before, storage, ids, events, lines, counted, goOn } = found;
    const texts = lines.map(({ value }, n) => DAMAGES[n]?.(value) ?? "");
    await storage.commit(lines.map(({ key }, n) => ({ op: "put", key, value: texts[n] ?? "" })));

    const after = await goOn();
    for (const { id } of events)
      expect(await wide.outcomes(after, id), texts.join(", ")).toEqual(wide.everyOne(ids, "delivered"));
    const everyOnce = events.flatMap(({ id }) => ids.map((sub) => `${id} ${sub}`));
    expect([...ofEach(before), ...ofEach(after)].toSorted(), texts.join(", ")).toEqual(everyOnce.toSorted());
    expect(counted("records_damaged due")).toBeGreaterThanOrEqual(DAMAGES.length - 1);
    expect(await wide.faults(after.storage)).toEqual([]);
  });

  it.skipIf(missing)("a fan-out ends, whatever else is damaged or gone with its line", PATIENCE, async (at) => {
    const found = await interrupted(2);
    if (found === undefined) return at.skip("what it knows of due lines ends with the process");
    const { before, storage, ids, lines, counted, goOn } = found;
    const [damaged = "", sound = ""] = lines.map(({ key }) => key.split(":").at(-1) as string);
    await storage.commit([
      ...lines.map(({ key }) => ({ op: "put", key, value: "torn" }) as const),
      { op: "put", key: EVENT.key({ keyId: "key_1", ordinal: damaged }), value: "torn" },
      // A delivery that was made, and is deleted by now.
      { op: "delete", key: DELIVERY.key({ subscriptionId: ids[2] as string, ordinal: sound }) },
    ]);

    const after = await goOn();
    const ended = await Promise.all(
      ids.map((id) => after.storage.getItem(DELIVERY.key({ subscriptionId: id, ordinal: damaged }))),
    );
    const failed = ended.map((text) => text?.includes("record_damaged"));
    expect(failed).toEqual(ids.map((_, i) => i >= WRITTEN));
    const sent = [...ofEach(before), ...ofEach(after)];
    expect(sent).toHaveLength(WRITTEN + ids.length);
    expect(new Set(sent).size).toBe(sent.length);
    expect([counted("records_damaged due"), counted("records_damaged event")]).toEqual([2, ids.length - WRITTEN]);
  });
});
