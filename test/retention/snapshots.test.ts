// The lists of subscriptions that wide events share, and what is removed of them.
import { expect, it } from "vitest";
import { FANOUT, MEMBERS, SNAPSHOT } from "../../core/model/schema.ts";
import { ordinals } from "../../core/model/ids.ts";
import { tidyWide } from "../../core/retention/remove-wide.ts";
import { testPath } from "../support/path.ts";

const hex = (n: number): string => n.toString(16).padStart(32, "0");

it("deletes an unused snapshot also where a key has a thousand that are used", async () => {
  await using test = await testPath();
  const { storage, clock } = test;
  const mint = ordinals(() => clock.now());
  const used = Array.from({ length: 1_000 }, (_, i) => hex(i));
  await storage.commit([
    ...used.map((id) => ({ op: "put", key: SNAPSHOT.key({ keyId: "key_1", id }), value: "live 300" }) as const),
    ...used.map(
      (id) =>
        ({
          op: "put",
          key: FANOUT.key({ keyId: "key_1", ordinal: mint() }),
          value: FANOUT.write({ snapshot: id, state: "open" }),
        }) as const,
    ),
  ]);
  const old = `f${hex(1).slice(1)}`;
  await storage.commit([
    { op: "put", key: SNAPSHOT.key({ keyId: "key_1", id: old }), value: "live 300" },
    { op: "put", key: MEMBERS.key({ keyId: "key_1", id: old, page: 0 }), value: "sub_1 1" },
  ]);
  for (let runs = 0; runs < 2; runs++) await tidyWide(storage, "key_1", new AbortController().signal);
  expect(await storage.getItem(MEMBERS.key({ keyId: "key_1", id: old, page: 0 }))).toBeUndefined();
  expect(await storage.getItem(SNAPSHOT.key({ keyId: "key_1", id: old }))).toBeUndefined();
  expect(await storage.range("snapshot:", { limit: 2_000 })).toHaveLength(1_000);
});
