import { expect, it } from "vitest";
import { MAX_BATCH_BYTES } from "../../core/model/event.ts";
import type { Files } from "../../plugins/storage/filesystem/files.ts";
import type { Journal } from "../../plugins/storage/filesystem/journal.ts";
import { groupPieces } from "../../plugins/storage/filesystem/journal-lines.ts";
import { Overlay } from "../../plugins/storage/filesystem/overlay.ts";
import { Store } from "../../plugins/storage/filesystem/store.ts";
import { testClock } from "../support/clock.ts";
import { quietLog } from "../support/quiet.ts";

const storeOn = (journal: object, files: object): Store =>
  new Store({
    journal: journal as Journal,
    files: files as Files,
    overlay: new Overlay(),
    clock: testClock(),
    log: quietLog(),
  });

it("full batches of many publishers at once share no sync beyond what fits into memory, and all are stored", async () => {
  const groups: number[] = [];
  const journal = {
    append: async (commits: readonly (readonly unknown[])[]) => void groups.push(commits.length),
    rotate: async () => [],
    drop: async () => undefined,
    close: async () => undefined,
  };
  const files = { apply: async () => undefined, read: async () => undefined };
  const store = storeOn(journal, files);
  const value = "x".repeat(MAX_BATCH_BYTES);
  await Promise.all(Array.from({ length: 64 }, (_, n) => store.commit([{ op: "put", key: `event:k:${n}`, value }])));
  expect(groups.reduce((sum, count) => sum + count, 0)).toBe(64);
  expect(Math.max(...groups)).toBe(1);
  // Small ones still share one.
  groups.length = 0;
  await Promise.all(
    Array.from({ length: 500 }, (_, n) => store.commit([{ op: "put", key: `event:k:${n}`, value: "x".repeat(600) }])),
  );
  expect(groups).toEqual([500]);
  await store.close();
});

it("a group longer than any text is written in pieces", () => {
  const value = "x".repeat(1 << 20);
  let bytes = 0;
  let largest = 0;
  for (const piece of groupPieces(Array.from({ length: 520 }, (_, n) => [[`event:k:${n}`, value]] as const))) {
    bytes += piece.length;
    largest = Math.max(largest, piece.length);
  }
  expect(bytes).toBeGreaterThan(520 << 20);
  expect(largest).toBeLessThan(4 << 20);
});

it("commits are refused, and wait for nothing, while the files are far behind and cannot follow", async () => {
  const full = Object.assign(new Error("no space left on device"), { code: "ENOSPC" });
  // A commit that tried until there is room would be taken in the end.
  let tries = 100;
  const files = {
    apply: async () => {
      if (tries-- > 0) throw full;
    },
    read: async () => undefined,
  };
  const journal = {
    uncertain: false,
    append: async () => undefined,
    rotate: async () => [],
    drop: async () => undefined,
    close: async () => undefined,
  };
  const store = storeOn(journal, files);
  // As much as the files may be behind.
  const value = "x".repeat(8 << 20);
  for (let n = 0; n < 4; n++) await store.commit([{ op: "put", key: `event:k:${n}`, value }]);
  await expect(store.commit([{ op: "put", key: "event:k:4", value: "x" }])).rejects.toMatchObject({ fault: "full" });
  expect(await store.get("event:k:4")).toBeUndefined();
  tries = 0;
  await store.commit([{ op: "put", key: "event:k:5", value: "x" }]);
  await store.close();
});
