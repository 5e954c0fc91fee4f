/**
 * Serves one storage to the nodes of one process, each in a thread of its own. It is to them what Redis is to nodes in
 * several processes: leases, limits and the due index are decided here, and a change is announced to all of them.
 */
import type { Due } from "../../model/delivery.ts";
import { ConflictError } from "../../model/errors.ts";
import { SUBSCRIPTION } from "../../model/schema.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Log } from "../../ports/plugin.ts";
import type { ClaimRequest, Storage } from "../../ports/storage.ts";
import type { Take, WindowResult } from "../../model/windows.ts";
import { within } from "../../lib/within.ts";
import { createAddedLines, type AddedLines } from "./added-lines.ts";
import { flat, unflat } from "./flat-changes.ts";
import { createHandOut } from "./hand-out.ts";
import { createHeardChanges } from "./heard-changes.ts";
import { heldLeases, type HeldLeases } from "./held-leases.ts";
import { createLink, type Link, type LinkPort } from "./link.ts";
import {
  CANCEL_MS,
  SIGN_OF_LIFE_MS,
  OPTIONAL_CALLS,
  PLAIN_CALLS,
  PLAIN_QUEUE_CALLS,
  plainLease,
  type ClaimAnswer,
  type ClaimCall,
  type CommitCall,
  type ReleaseCall,
  type SettleCall,
  type StorageFacts,
  type WithdrawCall,
} from "./storage-calls.ts";

export interface StorageHost {
  /** Serves a thread over this port. Returns a function to call when the thread has ended: its leases go back at once. */
  serve(port: LinkPort): () => Promise<void>;
  /** Serves nobody any more. The storage stays open. */
  close(): void;
}

/** A thread that is served. */
interface Client {
  readonly link: Link;
  readonly leases: HeldLeases;
  /** Ends its taps. */
  readonly taps: (() => void)[];
  /** Monotonic ms of its last sign of life. */
  heardAt: number;
  /** Whether it acts on messages of other nodes. */
  answers: boolean;
}

export function createStorageHost(deps: {
  readonly storage: Storage;
  readonly clock: Clock;
  readonly log: Pick<Log, "warn">;
}): StorageHost {
  const { storage, clock, log } = deps;
  const { queue, counters } = storage;
  const clients = new Set<Client>();
  /** The leases of the clients, and of those that have ended until all are given back. */
  const holders = new Set<HeldLeases>();
  const heard = createHeardChanges();
  let served = 0;
  let durability = storage.durability;

  const unwatch = storage.watch((keys) => {
    heard.changed(keys);
    for (const { link } of clients) link.send("changed", keys, heard.epoch);
  });

  const handOut = createHandOut<Client>({
    queue,
    clock,
    lent: (name) => lines.lent(name),
    lives: ({ heardAt }) => clock.monotonic() - heardAt < SIGN_OF_LIFE_MS,
    give(client, leases) {
      client.leases.claimed(leases);
      client.link.send("given", leases.map(plainLease));
    },
    wake: ({ link }) => link.send("wake"),
  });

  const lines: AddedLines<Client> = createAddedLines<Client>(storage, handOut.wrote, (name) =>
    holders.values().some((leases) => leases.has(name)),
  );

  async function commit(client: Client, [flatChanges, knows]: CommitCall): Promise<void> {
    const changes = unflat(flatChanges);
    if (knows !== undefined && heard.outdated(knows, changes)) throw new ConflictError([SUBSCRIPTION.start]);
    await storage.commit(changes);
    if (knows !== undefined) lines.committed(client, changes);
  }

  async function claim(client: Client, ...call: ClaimCall): Promise<ClaimAnswer> {
    // What the same thread has added before is found.
    await lines.done();
    const leases = await handOut.claim(client, requestOf(call));
    client.leases.claimed(leases);
    return leases.map(plainLease);
  }

  /** Resolves when every thread knows that leases of the subscription are lost, or asks before it uses one. */
  async function cancel(from: Client, subscriptionId: string): Promise<void> {
    await lines.done();
    await queue.cancel(subscriptionId);
    const told: Promise<unknown>[] = [];
    for (const client of clients) {
      client.leases.cancelled(subscriptionId);
      const done = client.link.call("cancelled", [subscriptionId]).catch(() => undefined);
      // The answer of this call comes after that message.
      if (client !== from) told.push(done);
    }
    await within(clock, CANCEL_MS, Promise.all(told));
  }

  async function ask(
    from: Client,
    message: string,
    { mostMs, silentMs }: { readonly mostMs: number; readonly silentMs: number },
  ): Promise<boolean> {
    const since = clock.monotonic() - silentMs;
    const acted: Promise<unknown>[] = [];
    let all = true;
    for (const client of clients) {
      if (client === from || !client.answers) continue;
      // A thread that has ended has nothing left to act on.
      const done = client.link.call<boolean>("act", [message], (did) => (all &&= did)).catch(() => undefined);
      // One that gives no sign of life reads the message when it goes on, before all that comes later.
      if (client.heardAt >= since) acted.push(done);
    }
    return (await within(clock, mostMs, Promise.all(acted))) && all;
  }

  function tap(client: Client, id: unknown): void {
    const stop = storage.tap?.((changes, certain) => client.link.send("tapped", id, flat(changes), certain));
    if (stop !== undefined) client.taps[Number(id)] = stop;
  }

  function facts(): StorageFacts {
    return {
      name: storage.name ?? "",
      durability,
      has: OPTIONAL_CALLS.filter((name) => storage[name] !== undefined),
      suspends: counters.restore !== undefined,
      restores: served++ === 0,
      epoch: heard.epoch,
    };
  }

  /** Every call of a thread by its name. */
  const calls: Readonly<Record<string, (client: Client, ...args: never[]) => unknown>> = {
    ...passedOn(storage, PLAIN_CALLS),
    ...passedOn(queue, PLAIN_QUEUE_CALLS),
    facts,
    commit: (client, ...call: CommitCall) => commit(client, call),
    add: (client, dues: readonly Due[]) => lines.later(client, dues),
    async depth() {
      await lines.done();
      return queue.depth();
    },
    claim,
    wait: (client, ...call: ClaimCall) => handOut.waits(client, requestOf(call)),
    settle: ({ leases }, ...[name, token, changes, then]: SettleCall) =>
      leases.settle(name, token, unflat(changes), then),
    async withdraw(_, ...[line, changes, next]: WithdrawCall) {
      await lines.done();
      return await queue.withdraw(line, unflat(changes), next);
    },
    release: ({ leases }, ...[name, token, dueAt]: ReleaseCall) => leases.release(name, token, dueAt),
    extend: ({ leases }, name: string, token: string) => leases.extend(name, token),
    cancel,
    take: (_, takes: readonly Take[]) => counters.take(takes),
    giveBack: (_, takes: readonly Take[], taken: readonly WindowResult[]) => counters.giveBack(takes, taken),
    restore: (_, ...args: Parameters<NonNullable<typeof counters.restore>>) => counters.restore?.(...args),
    ask,
    answers: (client, yes: boolean) => void (client.answers = yes),
    tap,
    untap: ({ taps }, id: number) => taps[id]?.(),
    beat: ({ link }) => {
      if (storage.durability !== durability) durability = storage.durability;
      link.send("beat", durability);
    },
  };

  async function left(client: Client): Promise<void> {
    if (!clients.delete(client)) return;
    handOut.left(client);
    client.link.end();
    for (const stop of client.taps) stop?.();
    await client.leases
      .end()
      .catch((error: unknown) =>
        log.warn("leases of a thread that ended were not given back", { error: String(error) }),
      )
      .finally(() => holders.delete(client.leases));
  }

  return {
    serve(port) {
      const client: Client = {
        link: createLink(
          port,
          (method, args) => {
            const one = Object.hasOwn(calls, method) ? calls[method] : undefined;
            if (one === undefined) throw new Error(`a thread asked for ${method}, which no storage has`);
            return one(client, ...(args as never[]));
          },
          () => (client.heardAt = clock.monotonic()),
        ),
        leases: heldLeases(queue, clock),
        taps: [],
        heardAt: clock.monotonic(),
        answers: false,
      };
      clients.add(client);
      holders.add(client.leases);
      return () => left(client);
    },
    close() {
      unwatch();
      handOut.close();
      for (const { link } of clients) link.end();
      clients.clear();
    },
  };
}

const requestOf = ([limit, perSubscription, busy]: ClaimCall): ClaimRequest => ({
  limit,
  perSubscription,
  busy: new Map(busy),
});

/** Those methods of a target, as calls of a thread. */
function passedOn<T extends object>(
  target: T,
  names: readonly (keyof T & string)[],
): Record<string, (client: Client, ...args: never[]) => unknown> {
  return Object.fromEntries(
    names.map((name) => [
      name,
      (_client: Client, ...args: never[]) => (target[name] as unknown as (...all: never[]) => unknown)(...args),
    ]),
  );
}
