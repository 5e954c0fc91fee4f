import { expect, it } from "vitest";
import { MEMBERS } from "../../core/model/schema.ts";
import { createRecipients, snapshotId } from "../../core/records/recipients.ts";

it("snapshots that are not held in memory any more take no room from those that are", async () => {
  const texts = new Map<string, string>();
  const [first, second] = ["sub_a", "sub_b"].map((id) => {
    const page = MEMBERS.write([{ id, generation: 1, disabled: false }]);
    const wide = { snapshot: snapshotId([page]), count: 1 };
    texts.set(MEMBERS.key({ keyId: "key_1", id: wide.snapshot, page: 0 }), page);
    return wide;
  });
  let reads = 0;
  const recipients = createRecipients({ getMany: async (keys) => (reads++, keys.map((key) => texts.get(key))) });
  // As many as the memory has room for; they are dropped at once, because they cannot be read.
  for (const snapshot of ["gone", "lost"])
    await expect(recipients.members("key_1", { snapshot, count: 50_000 })).rejects.toThrow("incomplete");
  for (const wide of [first, second, first, second]) if (wide) await recipients.members("key_1", wide);
  expect(reads).toBe(4);
});
