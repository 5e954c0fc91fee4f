// Which of many waiting subscriptions is next: found without a look at each of them, and without forgetting any.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Party, Receiver, WaitingLine } from "../../core/deliver/receivers.ts";

/** So many subscriptions of one key that wait, with attempts that take `ms`; without: nothing is known of them. */
function waiting(line: WaitingLine, name: string, count: number, ms?: number): Receiver[] {
  const key = new Party();
  return Array.from({ length: count }, (_, i) => {
    const receiver = new Receiver(`${name}${i}`, key, 16);
    if (ms !== undefined) receiver.learn(ms);
    line.add(receiver);
    return receiver;
  });
}

describe("subscriptions that wait for a slot", () => {
  it("are not all looked at for each slot, however many they are", () => {
    for (const ms of [undefined, 20, 5_000]) {
      const line = new WaitingLine();
      waiting(line, "a", 9_000, ms);
      waiting(line, "b", 500, ms);
      let looks = 0;
      line.lightest(() => ++looks < 0);
      expect(looks).toBeGreaterThan(100);
      expect(looks).toBeLessThanOrEqual(300);
    }
  });

  it("are next when their key holds less, however many of another key wait before them", () => {
    const line = new WaitingLine();
    const [first] = waiting(line, "flood", 9_000, 20);
    if (first !== undefined) first.key.held = 10;
    const [calm] = waiting(line, "calm", 1, 20);
    expect(line.lightest(() => true)).toBe(calm);
  });

  it("are next when their attempts take less time, where their keys hold about as many slots", () => {
    const line = new WaitingLine();
    const [long] = waiting(line, "long", 1, 3_000) as [Receiver];
    const [short] = waiting(line, "short", 1, 1_100) as [Receiver];
    // By time it holds less than half as much, though it has one slot more.
    [long.key.slow, short.key.slow] = [3, 4];
    expect(line.lightest(() => true)).toBe(short);
    short.key.slow = 12;
    expect(line.lightest(() => true)).toBe(long);
  });

  it("are each found in time, even when only one of thousands fits", () => {
    const line = new WaitingLine();
    const all = [...waiting(line, "a", 4_000), ...waiting(line, "b", 300), ...waiting(line, "c", 10)];
    for (const wanted of [all[0], all[3_999], all[4_200], all[4_305]]) {
      let calls = 0;
      while (line.lightest((receiver) => receiver === wanted) !== wanted) calls++;
      expect(calls).toBeLessThanOrEqual(4_000 / 85 + 1);
    }
  });

  it("are each found in two rounds, whatever comes and goes meanwhile, and not when they do not wait", () => {
    const step = fc.oneof(
      fc.record({ add: fc.nat({ max: 20 }) }),
      fc.record({ delete: fc.nat({ max: 20 }) }),
      fc.constant("next" as const),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
        const line = new WaitingLine();
        const keys = [new Party(), new Party(), new Party()] as const;
        const all = Array.from({ length: 21 }, (_, i) => new Receiver(`${i}`, keys[i % 3] ?? keys[0], 16));
        const held = new Set<Receiver | undefined>();
        for (const one of steps) {
          if (one === "next") expect(held.has(line.lightest(() => true))).toBe(held.size > 0);
          else if ("add" in one) {
            const receiver = all[one.add] as Receiver;
            if (!held.has(receiver)) line.add(receiver);
            held.add(receiver);
          } else if (held.delete(all[one.delete])) line.delete(all[one.delete] as Receiver);
          expect(line.size).toBe(held.size);
        }
        for (const receiver of all)
          expect(line.lightest((one) => one === receiver) === receiver).toBe(held.has(receiver));
      }),
    );
  });
});
