/**
 * Runs the attempts of one delivery while this node holds its lease, each through its steps.
 *
 * p-retry owns the loop of the retries, their count and the abort; the retry policy (pure) owns the times. Each result is
 * committed inside the attempt, with its next time, before p-retry sees it: p-retry drops a success when the abort fires
 * meanwhile.
 */
import pRetry from "p-retry";
import { ConflictError, DamagedRecordError, LeaseLostError } from "../model/errors.ts";
import { SUBSCRIPTION } from "../model/schema.ts";
import { MOST_ATTEMPTS } from "../model/subscription.ts";
import { freshDelivery } from "../records/delivery-records.ts";
import { endDamaged } from "./end-damaged.ts";
import type { Deliver, DeliveryDeps, Run, Step } from "./run.ts";
import { STEPS } from "./steps.ts";

/** Tells p-retry's loop that another attempt follows under the same lease. */
class Again extends Error {}

export function createDeliveries(deps: Omit<DeliveryDeps, "heldWaits" | "faults">): Deliver {
  const shared: DeliveryDeps = { ...deps, faults: new Map(), heldWaits: new Set() };
  return async (lease, slot, signal, draining, handed) => {
    // Of one that is handed over and does not go in order, only the acceptance was written.
    const delivery = handed && lease.order === undefined ? freshDelivery(lease, handed.event.id) : undefined;
    const known = { line: lease, delivery, loaded: handed, seen: handed?.seen ?? 0, after: "over" } as const;
    const run = { lease, slot, signal, draining, deps: shared, ...known } as Partial<Run> as Run;
    try {
      signal.throwIfAborted();
      shared.began?.(lease);
      if (await attempt(run)) await retry(run);
    } catch (error) {
      if (error instanceof DamagedRecordError) await endDamaged(error, run);
      // The lease was lost or its line changed: another holder continues, or nobody may.
      else if (!(error instanceof LeaseLostError || error instanceof ConflictError)) throw error;
    } finally {
      run.slot?.give();
      shared.heldWaits.delete(run);
      if (shared.gates.paused.size > 0) shared.gates.left(lease.subscriptionId, lease.ordinal);
    }
  };
}

/** @returns whether another attempt follows under the same lease */
async function attempt(run: Run): Promise<boolean> {
  for (let i = 0; i < STEPS.length;) {
    let next = (STEPS[i] as Step)(run);
    if (next instanceof Promise) {
      next = await next;
      run.waited = true;
    }
    if (next === "go") i++;
    else if (next === "again") i = 0;
    else if (next === "over") return false;
    else if ("held" in next) return next.held;
    else {
      const { queue } = run.deps.storage;
      await queue[next.how](run.lease.subscriptionId, Math.ceil(next.ms));
      await queue.release(run.lease);
      return false;
    }
  }
  return false;
}

async function retry(run: Run): Promise<void> {
  const again = async (): Promise<void> => {
    if ((await wait(run)) && (await attempt(run))) throw new Again();
  };
  await pRetry(again, {
    retries: Math.max(0, MOST_ATTEMPTS - run.line.attempts - 1),
    minTimeout: 0,
    factor: 1,
    signal: run.signal,
    shouldRetry: ({ error }) => error instanceof Again,
  });
}

/** Waits under the lease, without a slot and without the body. @returns false when the delivery went back: it finds none, or has to end */
async function wait(run: Run): Promise<boolean> {
  const { lease, line, signal, draining } = run;
  const { clock, slots, holdMs, storage, log } = run.deps;
  const { dueAt, waitMs = holdMs } = line;
  // The clock may be set at any time; the wait never exceeds what is left of the one asked for.
  const began = clock.monotonic();
  const left = (): number => Math.min(dueAt - clock.now(), waitMs - (clock.monotonic() - began));
  run.loaded = undefined;
  run.after = "over";
  run.slot?.give();
  run.slot = undefined;
  const ends = draining === undefined ? signal : AbortSignal.any([signal, draining]);
  try {
    await sleep(run, Math.min(left(), holdMs), ends);
    run.slot = slots.tryTake(lease);
  } catch {
    // It goes back.
  } finally {
    run.deps.heldWaits.delete(run);
  }
  if (run.slot !== undefined) return true;
  // Not repeated with another time: the lease lapses, and storage has the line with its own.
  await storage.queue
    .release(lease, clock.now() + left())
    .catch((error: unknown) =>
      log.warn("a lease was not given back", { subscriptionId: lease.subscriptionId, error: String(error) }),
    );
  return false;
}

/** Sleeps while the subscription stays as it is. The time is read last: the clock may be set. @throws when it may change */
async function sleep({ lease, deps }: Run, ms: number, signal: AbortSignal): Promise<void> {
  const changed = new AbortController();
  const own = SUBSCRIPTION.key({ keyId: lease.keyId, id: lease.subscriptionId });
  const unwatch = deps.storage.watch((keys) => {
    if (keys.includes(own) || keys.includes(SUBSCRIPTION.start)) changed.abort();
  });
  const ends = AbortSignal.any([signal, changed.signal]);
  await deps.clock.sleep(deps.clock.now() + ms, ends).finally(unwatch);
}
