import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { alignRecords, copyRecords, countRecords } from "../../core/maintenance/migrate.ts";
import { StorageError } from "../../core/model/errors.ts";
import type { Entry, Storage } from "../../core/ports/storage.ts";
import { memory } from "../../plugins/storage/memory.ts";
import { testClock } from "../support/clock.ts";
import { pluginContext } from "../support/plugin-context.ts";

const MARK = "meta:filling";
const mark = { key: MARK, value: (after: string) => `at ${after}` };

async function stored(rows: Readonly<Record<string, string>> = {}): Promise<Storage> {
  const storage = await memory().setup(pluginContext(testClock(), "/nowhere"));
  await storage.commit(Object.entries(rows).map(([key, value]) => ({ op: "put", key, value })));
  return storage;
}
const rowsOf = async (storage: Storage): Promise<readonly Entry[]> =>
  (await storage.range("", { limit: 1_000_000 })).filter(({ key }) => key !== MARK);
const many = (count: number): Record<string, string> =>
  Object.fromEntries(Array.from({ length: count }, (_, n) => [`event:${String(n).padStart(5, "0")}`, `${n}`]));

describe("copying records", () => {
  it("goes on where it was cut off, and copies nothing twice", async () => {
    const source = await stored(many(2_600));
    const target = await stored();
    let commits = 0;
    const failing = {
      range: target.range,
      async commit(changes: Parameters<Storage["commit"]>[0]) {
        if (++commits === 3) throw new StorageError("unavailable", "cut off");
        await target.commit(changes);
      },
    };
    await expect(copyRecords(source, failing, { mark })).rejects.toBeInstanceOf(StorageError);
    const after = (await target.getItem(MARK))?.slice("at ".length);
    expect(after).toBe("event:00999");
    let copied = 0;
    await copyRecords(source, target, { mark, after, progress: (records) => (copied += records) });
    expect(copied).toBe(1_600);
    expect(await rowsOf(target)).toEqual(await rowsOf(source));
    expect(await countRecords(target)).toBe(2_601);
  });

  it("splits what is too much for one commit", async () => {
    const big = "x".repeat(1_500_000);
    const source = await stored({ "event:1": big, "event:2": big, "event:3": big, "event:4": big });
    const target = await stored();
    let most = 0;
    const watched = {
      range: target.range,
      async commit(changes: Parameters<Storage["commit"]>[0]) {
        most = Math.max(most, changes.length);
        await target.commit(changes);
      },
    };
    await copyRecords(source, watched, { mark });
    expect(most).toBe(4);
    expect(await rowsOf(target)).toEqual(await rowsOf(source));
  });

  it("is made good where it is not alike, and says how much was not", async () => {
    const rows = fc.dictionary(
      fc.integer({ min: 0, max: 40 }).map((n) => `event:${String(n).padStart(2, "0")}`),
      fc.constantFrom("1", "2"),
    );
    await fc.assert(
      fc.asyncProperty(rows, rows, async (wanted, there) => {
        const source = await stored({ ...wanted });
        const target = await stored({ ...there, [MARK]: "x" });
        const keys = new Set([...Object.keys(wanted), ...Object.keys(there)]);
        const wrong = [...keys].filter((key) => wanted[key] !== there[key]).length;
        expect(await alignRecords(source, target, { except: MARK })).toBe(wrong);
        expect(await rowsOf(target)).toEqual(await rowsOf(source));
        expect(await alignRecords(source, target, { except: MARK })).toBe(0);
        expect(await target.getItem(MARK)).toBe("x");
      }),
      { numRuns: 200 },
    );
  });
});
