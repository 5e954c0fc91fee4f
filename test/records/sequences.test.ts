/** Several nodes change one sequence at the same time: of two that have read the same, one is refused and reads again. */
import { describe, expect, it } from "vitest";
import { ConflictError } from "../../core/model/errors.ts";
import type { Change } from "../../core/ports/storage.ts";
import {
  enterSequences,
  isSequenceConflict,
  leaveSequence,
  passOn,
  type OrderedDue,
} from "../../core/records/sequences.ts";
import { shelf, type Shelf } from "../support/shelf.ts";

const SUB = { keyId: "key_1", subscriptionId: "sub_1" };
const at = 1_764_000_000_000;
const ordinal = (n: number): string => `01kajc7dvq8d8n8kx5p6q7r8s${n}`;
const line = (n: number): OrderedDue => ({
  ...SUB,
  ordinal: ordinal(n),
  ...{ dueAt: at, generation: 1, cycle: 0, attempts: 0, waitMs: 0, order: { sequence: 0, place: 0 } },
});

async function entered(storage: Shelf, ...ns: number[]): Promise<readonly OrderedDue[]> {
  const { placed, changes } = await enterSequences(storage, ns.map(line));
  await storage.commit(changes);
  return placed;
}

/** Returns the kinds of the rows that were not as expected. */
async function refused(storage: Shelf, changes: readonly Change[]): Promise<readonly string[]> {
  const error: unknown = await storage.commit(changes).catch((cause: unknown) => cause);
  expect(error).toBeInstanceOf(ConflictError);
  expect(isSequenceConflict(error)).toBe(true);
  return (error as ConflictError).keys.map((key) => key.slice(0, key.indexOf(":"))).toSorted();
}

describe("of two that have read the same of a sequence, the second is refused", () => {
  it("when both enter it: no place is given twice", async () => {
    const storage = shelf();
    const [one, two] = [await enterSequences(storage, [line(1)]), await enterSequences(storage, [line(2)])];
    await storage.commit(one.changes);
    expect(await refused(storage, two.changes)).toEqual(["sequence"]);
    const [late] = await entered(storage, 2);
    expect([one.placed[0]?.order.place, late?.order.place]).toEqual([1, 2]);
  });

  it("when the last leaves it while another enters: nobody waits for a turn that never comes", async () => {
    const storage = shelf();
    const [head] = await entered(storage, 1);
    const passed = await passOn(storage, head as OrderedDue);
    const second = await enterSequences(storage, [line(2)]);
    expect([passed.next, second.heads]).toEqual([undefined, []]);
    await storage.commit(second.changes);
    expect(await refused(storage, passed.changes)).toEqual(["sequence"]);
    expect((await passOn(storage, head as OrderedDue)).next?.ordinal).toBe(ordinal(2));
  });

  it("when the turn passes to one that is taken out at this moment: it is not sent", async () => {
    const storage = shelf();
    const [head] = await entered(storage, 1, 2, 3);
    const passed = await passOn(storage, head as OrderedDue);
    expect(passed.next?.ordinal).toBe(ordinal(2));
    const [waits] = await storage.range("waiting:");
    const order = { sequence: 0, place: 2 };
    await storage.commit(await leaveSequence(storage, { ...SUB, order }, [waits as NonNullable<typeof waits>]));
    expect(await refused(storage, passed.changes)).toEqual(["passed", "waiting"]);
    expect((await passOn(storage, head as OrderedDue)).next?.ordinal).toBe(ordinal(3));
  });
});
