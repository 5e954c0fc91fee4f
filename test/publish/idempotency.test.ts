import { describe, expect, it } from "vitest";
import { StorageError } from "../../core/model/errors.ts";
import { ordinalFloor } from "../../core/model/ids.ts";
import { desk, paid, publish, subscription } from "../support/intake.ts";
import { refusal } from "../support/refusal.ts";

const DAY = 86_400_000;

describe("an id of the publisher's own", () => {
  it("makes a repeat harmless: the same answer, marked as a duplicate, nothing stored", async () => {
    const made = desk();
    made.subscriptions = [subscription("a")];
    const [first] = await made.intake.accept(publish([paid({ id: "inv-1" })]));
    await made.clock.advance(5_000);
    made.subscriptions = [];
    const [again] = await made.another().accept(publish([paid({ id: "inv-1" })]));
    expect(again).toEqual({ ...first, duplicate: true });
    expect(made.shelf.commits).toHaveLength(1);
    expect(made.shelf.added).toHaveLength(1);
    expect(made.metrics.counted.get("duplicates test")).toBe(1);
  });

  it("may stand for other events under other keys", async () => {
    const made = desk();
    await made.intake.accept(publish([paid({ id: "1" }), paid({ id: "1", keyId: "key_2", data: "other" })]));
    expect(made.told).toHaveLength(2);
  });

  it("refuses another type, time or data, even white space", async () => {
    const made = desk();
    const createdAt = "2026-01-01T10:00:00+01:00";
    await made.intake.accept(publish([paid({ id: "1", createdAt })]));
    const same = paid({ id: "1", createdAt: "2026-01-01T09:00:00.000Z" });
    expect((await made.intake.accept(publish([same])))[0]?.duplicate).toBe(true);
    expect((await made.intake.accept(publish([paid({ id: "1" })])))[0]?.duplicate).toBe(true);
    for (const other of [
      paid({ id: "1", type: "withdraw:sent" }),
      paid({ id: "1", createdAt: "2026-01-01T09:00:00.001Z" }),
      paid({ id: "1", data: { amount: 2 } }),
      '{"id":"1","type":"deposit:paid","keyId":"key_1","data":{"amount": 1}}',
    ]) {
      const { code, paths } = await refusal(made.intake.accept(publish([other])));
      expect([code, paths]).toEqual(["IDEMPOTENCY_MISMATCH", ["id"]]);
    }
    expect(made.shelf.commits).toHaveLength(1);
  });

  it("is compared within its batch as well", async () => {
    const made = desk();
    const accepted = await made.intake.accept(publish([paid({ id: "1" }), paid({ id: "2" }), paid({ id: "1" })]));
    expect(accepted.map(({ duplicate }) => duplicate)).toEqual([false, false, true]);
    expect(made.told).toHaveLength(2);
    const work = made.intake.accept(publish([paid({ id: "3" }), paid(), paid({ id: "3", data: 0 })]));
    expect((await refusal(work)).paths).toEqual(["[2].id"]);
  });

  it("repeated in a batch lets the new ones through, and the batch stays all or nothing", async () => {
    const made = desk();
    await made.intake.accept(publish([paid({ id: "1" })]));
    const mixed = await made.intake.accept(publish([paid({ id: "0" }), paid({ id: "1" }), paid({ id: "2" })]));
    expect(mixed.map(({ duplicate }) => duplicate)).toEqual([false, true, false]);
    const bad = made.intake.accept(
      publish([paid({ id: "4" }), paid({ id: "1", data: 9 }), paid({ id: "2", data: 9 })]),
    );
    expect((await refusal(bad)).paths).toEqual(["[1].id", "[2].id"]);
    expect(made.told.map(({ id }) => id)).toEqual(["1", "0", "2"]);
  });

  it("that is one of ours is the same event once more, or refused", async () => {
    const made = desk();
    const [first] = await made.intake.accept(publish([paid()]));
    const [again] = await made.intake.accept(publish([paid({ id: first?.id })]));
    expect(again).toEqual({ ...first, duplicate: true });
    expect((await refusal(made.intake.accept(publish([paid({ id: first?.id, data: 0 })])))).code).toBe(
      "IDEMPOTENCY_MISMATCH",
    );
    const lookalike = `evt_${ordinalFloor(made.clock.now() + DAY)}`;
    expect((await made.intake.accept(publish([paid({ id: lookalike })])))[0]?.duplicate).toBe(false);
    expect((await made.intake.accept(publish([paid({ id: lookalike })])))[0]?.duplicate).toBe(true);
  });

  it("is free again once its event was removed after a day", async () => {
    const made = desk();
    await made.intake.accept(publish([paid({ id: "1" })]));
    for (const key of made.shelf.rows.keys()) if (key.startsWith("event:")) made.shelf.rows.delete(key);
    await made.clock.advance(DAY - 1);
    expect((await refusal(made.intake.accept(publish([paid({ id: "1" })])))).code).toBe("IDEMPOTENCY_MISMATCH");
    await made.clock.advance(1);
    expect((await made.intake.accept(publish([paid({ id: "1", data: "new" })])))[0]?.duplicate).toBe(false);
    expect((await made.intake.accept(publish([paid({ id: "1", data: "new" })])))[0]?.duplicate).toBe(true);
  });

  it("survives retention taking its event away in the middle of a repeat", async () => {
    const made = desk();
    await made.intake.accept(publish([paid({ id: "1" })]));
    await made.clock.advance(DAY);
    let looks = 0;
    const read = made.shelf.getMany;
    made.shelf.getMany = async (keys) => {
      const found = await read(keys);
      if (looks++ === 0) made.shelf.rows.clear();
      return found;
    };
    expect((await made.intake.accept(publish([paid({ id: "1" })])))[0]?.duplicate).toBe(false);
  });
});

describe("an Idempotency-Key", () => {
  const idempotency = { scope: "s", key: "k", digest: "d" };

  it("answers a repeat of the whole request from the first one", async () => {
    const made = desk();
    const first = await made.intake.accept(publish([paid(), paid()], { idempotency }));
    const again = await made.another().accept(publish([paid(), paid()], { idempotency }));
    expect(again).toEqual(first.map((one) => ({ ...one, duplicate: true })));
    expect(made.shelf.commits).toHaveLength(1);
  });

  it("refuses another request, and knows nothing of other scopes", async () => {
    const made = desk();
    await made.intake.accept(publish([paid()], { idempotency }));
    const other = publish([paid({ data: 2 })], { idempotency: { ...idempotency, digest: "other" } });
    expect((await refusal(made.intake.accept(other))).code).toBe("IDEMPOTENCY_MISMATCH");
    const elsewhere = publish([paid()], { idempotency: { ...idempotency, scope: "t" } });
    expect((await made.intake.accept(elsewhere))[0]?.duplicate).toBe(false);
  });

  it("ends after a day, swept or not, and its successor is not swept in its place", async () => {
    const made = desk();
    await made.intake.accept(publish([paid()], { idempotency }));
    await made.clock.advance(DAY - 1);
    expect((await made.intake.accept(publish([paid()], { idempotency })))[0]?.duplicate).toBe(true);
    await made.clock.advance(1);
    expect((await made.intake.accept(publish([paid()], { idempotency })))[0]?.duplicate).toBe(false);
    expect((await made.intake.accept(publish([paid()], { idempotency })))[0]?.duplicate).toBe(true);
    const expiries = [...made.shelf.rows.keys()].filter((key) => key.startsWith("expiry:"));
    expect(expiries).toEqual([`expiry:${made.clock.now() + DAY}:idempotency:s:k`]);
  });

  it("is not forgotten when the wall clock is set forwards while the relay runs", async () => {
    const made = desk();
    await made.intake.accept(publish([paid()], { idempotency }));
    await made.clock.step(2 * DAY);
    expect((await made.intake.accept(publish([paid()], { idempotency })))[0]?.duplicate).toBe(true);
    // One that stays ahead is right.
    await made.clock.advance(DAY);
    await made.intake.accept(publish([paid()], { idempotency }));
    expect((await made.intake.accept(publish([paid()], { idempotency })))[0]?.duplicate).toBe(true);
    expect(made.told).toHaveLength(2);
  });

  it("is not used up by a request that was refused", async () => {
    const made = desk();
    await refusal(made.intake.accept(publish([paid({ type: 1 })], { idempotency })));
    expect((await made.intake.accept(publish([paid()], { idempotency })))[0]?.duplicate).toBe(false);
  });

  it("goes together with ids of the publisher's own", async () => {
    const made = desk();
    await made.intake.accept(publish([paid({ id: "1" })]));
    const mixed = publish([paid({ id: "1" }), paid({ id: "2" })], { idempotency });
    expect((await made.intake.accept(mixed)).map(({ duplicate }) => duplicate)).toEqual([true, false]);
    expect((await made.intake.accept(mixed)).map(({ duplicate }) => duplicate)).toEqual([true, true]);
    expect(made.told).toHaveLength(2);
  });
});

describe("a commit whose fate is unknown", () => {
  it("is repeated so that it happens once", async () => {
    for (const happened of [true, false]) {
      const made = desk();
      made.subscriptions = [subscription("a")];
      let calls = 0;
      const fail = (): void => {
        if (calls++ === 0) throw new StorageError("uncertain", "cut off");
      };
      if (happened) made.shelf.after = fail;
      else made.shelf.before = fail;
      const [answer] = await made.intake.accept(publish([paid({ id: "1" })]));
      expect(answer).toMatchObject({ id: "1", duplicate: false, deliveries: 1 });
      expect(made.shelf.commits).toHaveLength(1);
      // What stood there already is for the sweep to find: it may have been found, and have ended.
      expect(made.shelf.added).toHaveLength(happened ? 0 : 1);
    }
  });

  it("that stays unknown is answered with 503, and the publisher's repeat tells the truth", async () => {
    const made = desk();
    made.shelf.after = () => {
      made.shelf.after = () => {};
      made.shelf.before = () => {
        throw new StorageError("uncertain", "cut off");
      };
      throw new StorageError("uncertain", "cut off");
    };
    const { code, problem } = await refusal(made.intake.accept(publish([paid({ id: "1" })])));
    expect([code, problem.detail]).toEqual([
      "STORAGE_UNAVAILABLE",
      "The events may have been stored. Publish again with the same id or Idempotency-Key.",
    ]);
    made.shelf.before = () => {};
    expect((await made.intake.accept(publish([paid({ id: "1" })])))[0]?.duplicate).toBe(true);
  });
});
