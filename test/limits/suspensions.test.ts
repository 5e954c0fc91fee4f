import { describe, expect, it } from "vitest";
import { loadSuspensions, storeSuspension } from "../../core/limits/suspensions.ts";
import { shelf } from "../support/shelf.ts";

const FOR = { strikes: 1, forMs: 300_000 };

describe("a stored suspension", () => {
  it("keeps the date of its removal when it is stored twice in one moment", async () => {
    const storage = shelf();
    for (let n = 0; n < 2; n++) await storeSuspension(storage, "a", FOR, 86_400_000, 5);
    expect((await storage.range("expiry:")).map(({ key }) => key)).toHaveLength(1);
  });

  it("is stored for as long as it lasts, though its strikes are forgotten earlier", async () => {
    const storage = shelf();
    await storeSuspension(storage, "a", FOR, 60_000, 0);
    const lasting = (now: number) =>
      loadSuspensions(
        storage,
        () => {},
        now,
        60_000,
        () => true,
      );
    expect([await lasting(299_999), await lasting(300_000)]).toEqual([1, 0]);
    expect((await storage.range("expiry:"))[0]?.key).toMatch(/^expiry:0*300000:/);
  });
});
