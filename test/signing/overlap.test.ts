/** How long the old secret of a rotation signs, when the wall clock is set meanwhile or was wrong at the rotation. */
import { describe, expect, it } from "vitest";
import type { Subscription } from "../../core/model/subscription.ts";
import { newSecret } from "../../core/signing/secret.ts";
import { Signer } from "../../core/signing/signer.ts";
import { testClock, type TestClock } from "../support/clock.ts";

const event = { eventId: "evt_1", type: "deposit:paid", attempt: 1, cycle: 0, body: Buffer.from("{}") };
const OVERLAP_MS = 60_000;
const HOUR_MS = 3_600_000;

/** A rotation at the wall clock's time of this moment. */
function rotated(clock: TestClock, over: Partial<Subscription> = {}): Subscription {
  const at = clock.now();
  return {
    id: "sub_1",
    keyId: "key_1",
    url: "https://hooks.example.com/",
    events: ["*"],
    status: "active",
    createdAt: 0,
    updatedAt: at,
    generation: 0,
    secrets: [
      { version: 2, sealed: "new", createdAt: at },
      { version: 1, sealed: "old", createdAt: 0, expiresAt: at + OVERLAP_MS },
    ],
    ...over,
  };
}

const signerOf = (clock: TestClock): Signer => {
  const secrets: Record<string, string> = { new: newSecret(), old: newSecret() };
  return new Signer({ keys: { open: (sealed) => secrets[sealed] as string }, clock });
};

/** Returns true when the old secret signs an attempt that is made now. */
const oldSigns = (signer: Signer, sub: Subscription, clock: TestClock): boolean =>
  signer.sign(sub, event, clock.now())["X-Relay-Webhook-Signature-Previous"] !== undefined;

describe("the overlap of a rotation", () => {
  it.each([90_000, HOUR_MS, 24 * HOUR_MS])("made with a clock %i ms ahead lasts no longer", async (ahead) => {
    const clock = testClock();
    const signer = signerOf(clock);
    await clock.step(ahead);
    const sub = rotated(clock);
    expect(oldSigns(signer, sub, clock)).toBe(true);
    await clock.step(-ahead);
    await clock.advance(OVERLAP_MS - 1);
    expect(oldSigns(signer, sub, clock)).toBe(true);
    await clock.advance(1);
    expect(oldSigns(signer, sub, clock)).toBe(false);
  });

  it("lasts as long from the rotation when nothing is sent before the clock is set back", async () => {
    const clock = testClock();
    const signer = signerOf(clock);
    await clock.step(HOUR_MS);
    const sub = rotated(clock);
    await clock.advance(1_000);
    signer.rotated("sub_1");
    await clock.step(-HOUR_MS);
    await clock.advance(OVERLAP_MS - 1_001);
    expect(oldSigns(signer, sub, clock)).toBe(true);
    await clock.advance(1);
    expect(oldSigns(signer, sub, clock)).toBe(false);
  });

  it("is not cut short by what was heard of an earlier rotation", async () => {
    const clock = testClock();
    const signer = signerOf(clock);
    signer.rotated("sub_1");
    await clock.advance(OVERLAP_MS);
    const sub = rotated(clock);
    expect(oldSigns(signer, sub, clock)).toBe(true);
    await clock.advance(OVERLAP_MS - 1);
    expect(oldSigns(signer, sub, clock)).toBe(true);
  });

  it("is not begun again by another change of the subscription, nor by another version of the same record", async () => {
    const clock = testClock();
    const signer = signerOf(clock);
    await clock.step(HOUR_MS);
    const sub = rotated(clock);
    expect(oldSigns(signer, sub, clock)).toBe(true);
    await clock.step(-HOUR_MS);
    await clock.advance(OVERLAP_MS / 2);
    const described = { ...sub, description: "changed" };
    expect(oldSigns(signer, described, clock)).toBe(true);
    await clock.advance(OVERLAP_MS / 2);
    expect(oldSigns(signer, { ...described }, clock)).toBe(false);
  });

  it("is at most its own length after a restart with a clock that is behind", async () => {
    const clock = testClock();
    await clock.step(HOUR_MS);
    const sub = rotated(clock);
    await clock.step(-HOUR_MS);
    const restarted = signerOf(clock);
    expect(oldSigns(restarted, sub, clock)).toBe(true);
    await clock.advance(OVERLAP_MS);
    expect(oldSigns(restarted, sub, clock)).toBe(false);
  });

  it("ends at the time that was answered when the clock goes right, also for who comes late", async () => {
    const clock = testClock();
    const signer = signerOf(clock);
    const sub = rotated(clock);
    await clock.advance(OVERLAP_MS - 1);
    expect(oldSigns(signer, sub, clock)).toBe(true);
    await clock.advance(1);
    expect(oldSigns(signer, sub, clock)).toBe(false);
  });
});
