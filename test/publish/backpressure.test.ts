import { describe, expect, it } from "vitest";
import { StorageError } from "../../core/model/errors.ts";
import { desk, paid, publish, subscription } from "../support/intake.ts";
import { refusal } from "../support/refusal.ts";
import { SMALL } from "../support/wide.ts";

describe("a backlog beyond intake.maxPending", () => {
  it("refuses publishing until four fifths of it are left", async () => {
    const made = desk({ maxPending: 10 });
    const look = async (waiting: number, leased = 0) => {
      made.shelf.depth = { waiting, leased };
      await made.clock.advance(300);
      return made.intake.accept(publish([paid()]));
    };
    await look(10);
    const { code, retryAfter } = await refusal(look(8, 3));
    expect([code, retryAfter]).toEqual(["PROVIDER_BACKPRESSURE", 2]);
    await refusal(look(9));
    await look(8);
    await look(10);
  });

  it("is seen between two looks at it, by what was accepted since", async () => {
    const made = desk({ maxPending: 3 });
    made.subscriptions = [subscription("a")];
    await made.intake.accept(publish([paid(), paid(), paid(), paid()]));
    expect((await refusal(made.intake.accept(publish([paid()])))).code).toBe("PROVIDER_BACKPRESSURE");
  });

  it("counts every delivery of an event for many before one of them is written", async () => {
    const made = desk({ maxPending: 8, fanout: SMALL });
    made.subscriptions = Array.from({ length: 9 }, (_, n) => subscription(`a${n}`));
    await made.intake.accept(publish([paid()]));
    expect((await refusal(made.intake.accept(publish([paid()])))).code).toBe("PROVIDER_BACKPRESSURE");
  });

  it("is checked once for a body that comes at once, and again for one that takes its time", async () => {
    const made = desk({ maxPending: 3 });
    made.subscriptions = [subscription("a")];
    const admittedAt = made.intake.admit();
    await made.intake.accept(publish([paid(), paid(), paid(), paid()]));
    await made.intake.accept({ ...publish([paid()]), admittedAt });
    await made.clock.advance(100);
    expect((await refusal(made.intake.accept({ ...publish([paid()]), admittedAt }))).code).toBe(
      "PROVIDER_BACKPRESSURE",
    );
  });

  it("opens the door by itself for those who only ask", async () => {
    const made = desk({ maxPending: 3 });
    made.shelf.depth = { waiting: 4, leased: 0 };
    await refusal(made.intake.accept(publish([paid()])));
    made.shelf.depth = { waiting: 0, leased: 0 };
    await made.clock.advance(300);
    expect(() => made.intake.admit()).toThrow(/PROVIDER_BACKPRESSURE/);
    await made.clock.advance(1);
    expect(() => made.intake.admit()).not.toThrow();
  });

  it("counts whom it refuses before the body is read as well", async () => {
    const made = desk({ maxPending: 3 });
    made.shelf.depth = { waiting: 4, leased: 0 };
    const refused = (): number | undefined => made.metrics.counted.get("publish_refused PROVIDER_BACKPRESSURE");
    await refusal(made.intake.accept(publish([paid()])));
    expect(refused()).toBe(1);
    expect(() => made.intake.admit()).toThrow(/PROVIDER_BACKPRESSURE/);
    expect(refused()).toBe(2);
  });

  it("is no limit by default, and what cannot be counted does not refuse", async () => {
    const made = desk();
    made.shelf.depth = { waiting: 1e9, leased: 0 };
    await made.intake.accept(publish([paid()]));
    const limited = desk({ maxPending: 1 });
    limited.shelf.queue.depth = () => Promise.reject(new StorageError("unavailable", "gone"));
    await limited.intake.accept(publish([paid()]));
  });
});

describe("a storage that does not keep up", () => {
  it("closes the door once a commit has waited two seconds, and opens it when that has ended", async () => {
    const made = desk();
    const gate = Promise.withResolvers<void>();
    made.shelf.before = () => gate.promise;
    const first = made.intake.accept(publish([paid()]));
    await made.clock.advance(1_000);
    const second = made.intake.accept(publish([paid()]));
    await made.clock.advance(1_001);
    expect((await refusal(made.intake.accept(publish([paid()])))).code).toBe("PROVIDER_BACKPRESSURE");
    expect(() => made.intake.admit()).toThrow(/PROVIDER_BACKPRESSURE/);
    gate.resolve();
    expect((await Promise.all([first, second])).flat()).toHaveLength(2);
    made.intake.admit();
  });

  it("that is full or gone is answered with 503, nothing is announced, and it recovers", async () => {
    for (const [fault, expected] of [
      ["full", "STORAGE_FULL"],
      ["unavailable", "STORAGE_UNAVAILABLE"],
    ] as const) {
      const made = desk();
      made.subscriptions = [subscription("a")];
      made.shelf.before = () => {
        throw new StorageError(fault, "no");
      };
      const { code, retryAfter } = await refusal(made.intake.accept(publish([paid({ id: "1" })])));
      expect([code, retryAfter]).toEqual([expected, 5]);
      expect([made.told.length, made.shelf.added.length, made.shelf.rows.size]).toEqual([0, 0, 0]);
      made.shelf.before = () => {};
      expect((await made.intake.accept(publish([paid({ id: "1" })])))[0]?.duplicate).toBe(false);
    }
  });

  it("that cannot read its records is our fault, not a matter of waiting", async () => {
    const made = desk();
    made.shelf.before = () => {
      throw new StorageError("broken", "no");
    };
    await expect(made.intake.accept(publish([paid()]))).rejects.toBeInstanceOf(StorageError);
    expect(Object.fromEntries(made.metrics.counted)).toEqual({ "publish_refused INTERNAL_ERROR": 1 });
  });
});
