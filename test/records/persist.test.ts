import { expect, it } from "vitest";
import { StorageError } from "../../core/model/errors.ts";
import { persist } from "../../core/records/persist.ts";
import { quietLog } from "../support/quiet.ts";

/** Writes until it works; resolves to how long it has waited between the tries, ms. */
async function waits(faults: readonly StorageError[]): Promise<readonly number[]> {
  const slept: number[] = [];
  let now = 0;
  const clock = {
    now: () => now,
    sleep: (until: number) => {
      slept.push(until - now);
      now = until;
      return Promise.resolve();
    },
  };
  const left = [...faults];
  const write = (): Promise<string> => {
    const fault = left.shift();
    return fault === undefined ? Promise.resolve("stored") : Promise.reject(fault);
  };
  expect(await persist(write, new AbortController().signal, { clock: clock as never, log: quietLog() })).toBe("stored");
  return slept;
}

it("a result is stored again after waits that double, up to five seconds", async () => {
  const full = Array.from({ length: 9 }, () => new StorageError("full", "no space"));
  expect(await waits(full)).toEqual([100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000, 5_000]);
});

it("a result that needs what cannot be read waits for nothing", async () => {
  await expect(waits([new StorageError("broken", "torn")])).rejects.toThrow("torn");
});
