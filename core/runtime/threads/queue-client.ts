/** The queue of a storage that another thread holds. It knows the leases of this node, so that each attempt asks nobody. */
import { StorageError } from "../../model/errors.ts";
import { DUE } from "../../model/schema.ts";
import { Waiters } from "../../lib/waiters.ts";
import type { Clock } from "../../ports/clock.ts";
import type { ClaimRequest, Lease, Queue, QueueDepth } from "../../ports/storage.ts";
import { flat } from "./flat-changes.ts";
import type { Link } from "./link.ts";
import {
  SIGN_OF_LIFE_MS,
  leaseName,
  type ClaimAnswer,
  type ClaimCall,
  type ExtendCall,
  type ReleaseCall,
  type SettleCall,
  type WithdrawCall,
} from "./storage-calls.ts";

/** Turns of the event loop in which a node that was woken claims. */
const GIVEN_TURNS = 4;

/** Each is forgotten when its commit's caller adds it, right after; some never are. */
const MOST_KNOWN = 10_000;

interface QueueClient {
  readonly port: Queue;
  /** The other side has added these lines itself, with the commit that wrote them. */
  added(keys: readonly string[]): void;
  /** Something may be claimed. */
  wakeUp(): void;
  /** Leases for this node, which waited: the next claim takes them. */
  given(leases: readonly Lease[]): void;
  /** Leases of the subscription are lost. */
  cancelled(subscriptionId: string): void;
  /** Ends every wait; nothing is claimed any more. */
  close(): void;
}

/** @param deps.heardAt monotonic ms of the last message from the other side */
export function queueClient(deps: {
  readonly link: Link;
  readonly clock: Pick<Clock, "monotonic">;
  readonly heardAt: () => number;
}): QueueClient {
  const { link, clock, heardAt } = deps;
  /** Tokens of the leases of this node. */
  const held = new Map<string, string>();
  const waiters = new Waiters();
  /** Leases that no claim has taken yet. */
  const given: Lease[] = [];
  /** Keys of lines that the other side has added. */
  const known = new Set<string>();
  let claims = 0;
  let last: ClaimRequest | undefined;
  // What was due before this node came is not announced again.
  let notified = true;
  let closed = false;

  function wakeUp(): void {
    notified = true;
    waiters.wake();
  }

  function forget(name: string, token: string): void {
    if (held.get(name) === token) held.delete(name);
  }

  function claimed(leases: ClaimAnswer): void {
    for (const lease of leases) held.set(leaseName(lease), lease.token);
  }

  /** Takes as many of the given leases as there is room for. */
  function takeGiven(room: number): readonly Lease[] {
    if (given.length === 0) return [];
    const taken = given.splice(0, Math.max(0, room));
    if (given.length > 0) wakeUp();
    return taken;
  }

  /** Leases that are not claimed soon go back: this node no longer waits. */
  async function giveBack(turns: number): Promise<void> {
    for (let i = 0; i < turns; i++) await new Promise((turned) => setImmediate(turned));
    if (claims > 0) return;
    for (const lease of given.splice(0)) port.release(lease).catch(() => undefined);
  }

  const port: Queue = {
    add(dues) {
      const rest = dues.filter((due) => !known.delete(DUE.key(due)));
      if (rest.length > 0) link.send("add", rest);
    },
    async claim(request) {
      notified = false;
      if (closed) throw new StorageError("unavailable", "the storage is closed");
      last = request;
      if (given.length > 0) return takeGiven(request.limit);
      claims++;
      try {
        const leases = await link.call<ClaimAnswer>("claim", callOf(request), claimed);
        // Given while the claim was on its way.
        return given.length === 0 ? leases : [...leases, ...takeGiven(request.limit - leases.length)];
      } finally {
        claims--;
        // What was given meanwhile, and found no room, was not given back because of this claim.
        if (given.length > 0) void giveBack(GIVEN_TURNS);
      }
    },
    wake(signal) {
      if (notified || closed || signal.aborted) return Promise.resolve();
      if (last !== undefined) link.send("wait", ...callOf(last));
      return waiters.wait(signal);
    },
    extend(lease) {
      const call: ExtendCall = [leaseName(lease), lease.token];
      if (held.get(call[0]) !== lease.token) return false;
      // A thread that hung may have missed a cancel: the other side waits for it only so long.
      return clock.monotonic() - heardAt() < SIGN_OF_LIFE_MS ? true : link.call<boolean>("extend", call);
    },
    async settle(lease, changes, then) {
      const name = leaseName(lease);
      const call: SettleCall = [name, lease.token, flat(changes), then];
      await link.call<void>("settle", call, () => {
        if (then?.keep === undefined) forget(name, lease.token);
      });
    },
    withdraw(line, changes, next) {
      const call: WithdrawCall = [line, flat(changes), next];
      return link.call<boolean>("withdraw", call);
    },
    release(lease, dueAt) {
      const call: ReleaseCall = [leaseName(lease), lease.token, dueAt];
      forget(call[0], lease.token);
      return link.call<void>("release", call);
    },
    pause: (subscriptionId, ms) => link.call<void>("pause", [subscriptionId, ms]),
    hold: (subscriptionId, ms) => link.call<void>("hold", [subscriptionId, ms]),
    cancel: (subscriptionId) => link.call<void>("cancel", [subscriptionId]),
    sweep: () => link.call<number>("sweep", []),
    depth: () => link.call<QueueDepth>("depth", []),
    pending: (subscriptionIds) => link.call<number>("pending", [subscriptionIds]),
  };

  return {
    port,
    added(keys) {
      // A line that is added twice is found out there.
      if (known.size > MOST_KNOWN) known.clear();
      for (const key of keys) known.add(key);
    },
    wakeUp,
    given(leases) {
      claimed(leases);
      given.push(...leases);
      wakeUp();
      void giveBack(closed ? 0 : GIVEN_TURNS);
    },
    cancelled(subscriptionId) {
      const prefix = `${subscriptionId} `;
      for (const name of held.keys()) if (name.startsWith(prefix)) held.delete(name);
    },
    close() {
      closed = true;
      void giveBack(0);
      wakeUp();
    },
  };
}

const callOf = ({ limit, perSubscription, busy }: ClaimRequest): ClaimCall => [limit, perSubscription, [...busy]];
