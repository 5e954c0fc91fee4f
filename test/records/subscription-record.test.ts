/** The record of a subscription: every change of a character is noticed, and records without a checksum stay readable. */
import { expect, it } from "vitest";
import { DamagedRecordError } from "../../core/model/errors.ts";
import { unlessDamaged } from "../../core/model/kind.ts";
import { SUBSCRIPTION } from "../../core/model/schema.ts";
import type { Subscription } from "../../core/model/subscription.ts";
import { createRevising } from "../../core/subscriptions/revise.ts";
import { shelf } from "../support/shelf.ts";

const SUB: Subscription = {
  id: "sub_1",
  keyId: "key_1",
  url: "https://hooks.example.com/in",
  events: ["deposit:paid"],
  status: "active",
  createdAt: 1,
  updatedAt: 2,
  generation: 1,
  secrets: [{ version: 1, sealed: "c2VhbGVk", createdAt: 1 }],
};
const KEY = SUBSCRIPTION.key({ keyId: "key_1", id: "sub_1" });

it("no single changed character of a record passes, wherever it is", () => {
  const text = SUBSCRIPTION.write(SUB);
  expect(SUBSCRIPTION.orThrow(text, KEY)).toEqual(SUB);
  for (let at = 0; at < text.length; at++)
    for (let bit = 0; bit < 7; bit++) {
      const flipped = text.slice(0, at) + String.fromCharCode(text.charCodeAt(at) ^ (1 << bit)) + text.slice(at + 1);
      const read = unlessDamaged(SUBSCRIPTION.read(flipped, KEY));
      // All that may pass is another time of the last change.
      if (read !== undefined) expect({ ...read, updatedAt: 2 }, flipped).toEqual(SUB);
    }
});

it("a record that version 0.1.0 has changed is read, and gets its checksum when it is next written", () => {
  const { keyId, ...old } = JSON.parse(SUBSCRIPTION.write(SUB)) as Subscription;
  const text = JSON.stringify({ ...old, keyId, url: "https://moved.example.com/", updatedAt: 9 });
  const read = SUBSCRIPTION.orThrow(text, KEY);
  expect(read).toEqual({ ...SUB, url: "https://moved.example.com/", updatedAt: 9 });
  const again = SUBSCRIPTION.write(read).replace("moved", "loved");
  expect(() => SUBSCRIPTION.orThrow(again, KEY)).toThrow(DamagedRecordError);
});

it("a record of the first edition is read, and gets its checksum when it is next written", async () => {
  const store = shelf();
  store.rows.set(KEY, JSON.stringify(SUB));
  const { revise } = createRevising(store);
  await revise("key_1", "sub_1", (now) => ({ next: { ...now, updatedAt: 3 }, more: [] }));
  expect(store.rows.get(KEY)).toBe(SUBSCRIPTION.write({ ...SUB, updatedAt: 3 }));
});

it("a record of the first edition that stands under another's key is not read", () => {
  expect(() => SUBSCRIPTION.orThrow(JSON.stringify(SUB), SUBSCRIPTION.key({ keyId: "key_2", id: "sub_1" }))).toThrow(
    DamagedRecordError,
  );
});
