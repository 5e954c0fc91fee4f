// Waits for work that may never end, beside a signal that outlives it.
import { getEventListeners } from "node:events";
import { describe, expect, it } from "vitest";
import { unlessAborted } from "../../core/lib/within.ts";

const never = new Promise<never>(() => undefined);

describe("work that a signal may cut short", () => {
  it("ends as it does", async () => {
    const { signal } = new AbortController();
    expect(await unlessAborted(signal, Promise.resolve(7))).toBe(7);
    await expect(unlessAborted(signal, Promise.reject(new Error("broken")))).rejects.toThrow("broken");
  });

  it("ends with the signal, also with one that has aborted before", async () => {
    const over = new AbortController();
    const waiting = unlessAborted(over.signal, never);
    over.abort();
    expect([await waiting, await unlessAborted(over.signal, never)]).toEqual([undefined, undefined]);
  });

  it("leaves nothing at the signal, however often", async () => {
    const { signal } = new AbortController();
    for (let i = 0; i < 100; i++) {
      await unlessAborted(signal, Promise.resolve());
      await unlessAborted(signal, Promise.reject(new Error("away"))).catch(() => undefined);
    }
    expect(getEventListeners(signal, "abort")).toHaveLength(0);
  });
});
