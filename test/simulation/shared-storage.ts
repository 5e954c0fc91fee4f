/**
 * A store that several nodes share over a network, as Redis is shared: commits, leases with tokens that lapse, messages
 * about what changed. Lines between a node and the store can be cut; a request may then arrive late, or its answer never.
 */
import { ConflictError, LeaseLostError, StorageError } from "../../core/model/errors.ts";
import { type Due, neverTried } from "../../core/model/delivery.ts";
import { DUE } from "../../core/model/schema.ts";
import type { Change, Lease, Nodes, Queue, Storage } from "../../core/ports/storage.ts";
import { unmet } from "../../plugins/storage/embedded/group.ts";
import { createCounters } from "../../plugins/storage/embedded/counters.ts";
import { simpleDriver } from "../../plugins/storage/embedded/driver.ts";
import { sortedMap, type SortedMap } from "../../plugins/storage/embedded/sorted-map.ts";
import { watchedKeys, Watchers } from "../../plugins/storage/embedded/watch.ts";
import { GENESIS, type Life, type World } from "./world.ts";

export const LEASE_MS = 45_000;
/** A call ends within this. */
export const CALL_MS = 2_000;
/** A node looks at least this often, should a message get lost. */
const LONGEST_WAIT_MS = 30_000;
/** Messages that a broken line holds back arrive this late at most. */
const LATE_MS = 8_000;

export type Cut = "refused" | "hole" | "mute";

export interface SimShared {
  rows(): SortedMap | Promise<SortedMap>;
  open(life: Life): Promise<Storage>;
  /** Nothing goes through between this node and the store; `mute`: requests arrive, answers do not. */
  cut(name: string, how: Cut | "whole"): void;
  /** The store forgets every lease, as after a failover to a replica that had not heard of them. */
  forgetLeases?(): void;
}

interface Held {
  readonly token: string;
  /** Key of its due line. */
  line: string;
  until: number;
}
/** The node that asks has missed a change of a subscription. */
class StaleError extends Error {
  readonly epoch: number;
  constructor(epoch: number) {
    super("stale");
    this.epoch = epoch;
  }
}
/** A script in the store, which returns what it comes to. */
type Script<T> = () => T;

export function simShared(world: World): SimShared {
  const { random } = world;
  const rows = sortedMap();
  /** By `<sub>:<ordinal>`. */
  const leases = new Map<string, Held>();
  /** Lines given back for later, by due key. */
  const later = new Map<string, number>();
  const pauses = new Map<string, number>();
  const holds = new Map<string, number>();
  /** Commits just made, by id. */
  const made = new Map<string, number>();
  const cuts = new Map<string, "refused" | "hole" | "mute">();
  const nodes = new Set<{
    readonly life: Life;
    told(epoch: number, keys: readonly string[]): void;
    wake(): void;
    act(message: string): Promise<unknown>;
  }>();
  let tokens = 0;
  let epoch = 0;
  let opened = 0;

  /** The store's own clock. */
  const serverNow = (): number => GENESIS + Math.floor(world.now());

  /** Returns when a line is due: at once if it was never tried; else as soon from here as from the node, within its wait. */
  function claimableAt(due: Due, nodeNow: number): number {
    const now = serverNow();
    if (neverTried(due)) return now;
    return Math.min(due.dueAt + now - nodeNow, now + (due.waitMs ?? Number.POSITIVE_INFINITY));
  }

  /** @param nodeNow what the clock of the node said when it asked */
  function carryOut(id: string, changes: readonly Change[], nodeNow: number): number {
    const keys = unmet(changes, rows.get);
    if (keys.length > 0) throw new ConflictError(keys);
    made.set(id, world.now());
    const watched: string[] = [];
    for (const { op, key, ...more } of changes) {
      if (op === "put") rows.set(key, (more as { value: string }).value);
      if (op === "put" && key.startsWith("due:"))
        later.set(key, claimableAt(DUE.orThrow(String(rows.get(key)), key), nodeNow));
      else if (op === "delete") rows.delete(key);
      if (op !== "check" && /^(subscription|control):/.test(key)) watched.push(key);
    }
    const dues = changes.some(({ op, key }) => op === "put" && key.startsWith("due:"));
    if (watched.length > 0) epoch++;
    const at = epoch;
    for (const node of nodes) {
      if (cuts.has(node.life.name)) continue;
      if (watched.length > 0) node.life.after(random.next() * 20, () => node.told(at, watched));
      if (dues) node.life.after(random.next() * 20, node.wake);
    }
    return watched.length > 0 ? at : 0;
  }

  const leaseOf = (lease: Lease): Held | undefined => {
    const held = leases.get(`${lease.subscriptionId}:${lease.ordinal}`);
    return held?.token === lease.token ? held : undefined;
  };

  function claimed(limit: number, most: number, busy: ReadonlyMap<string, number>, claim: string): Lease[] {
    const now = serverNow();
    const found: Lease[] = [];
    const counts = new Map(busy);
    for (const { key, value } of rows.range("due:", { limit: 100_000 })) {
      if (found.length >= limit) break;
      const due = DUE.orThrow(value, key);
      const { subscriptionId, ordinal } = due;
      const count = counts.get(subscriptionId) ?? 0;
      const held = leases.get(`${subscriptionId}:${ordinal}`);
      if (count >= most || Math.max(pauses.get(subscriptionId) ?? 0, holds.get(subscriptionId) ?? 0) > now) continue;
      if (held !== undefined && held.line === key && held.until > now) continue;
      if ((later.get(key) ?? due.dueAt) > now) continue;
      counts.set(subscriptionId, count + 1);
      const token = `${claim}.${++tokens}`;
      leases.set(`${subscriptionId}:${ordinal}`, { token, line: key, until: now + LEASE_MS });
      found.push({ ...due, token });
    }
    return found;
  }

  /** How long until something more may be claimed, ms. */
  function nextDue(): number {
    const now = serverNow();
    let next = Number.POSITIVE_INFINITY;
    for (const { key } of rows.range("due:", { limit: 100_000 })) {
      const [, sub = "", dueAt, ordinal = ""] = key.split(":");
      const held = leases.get(`${sub}:${ordinal}`);
      const free = held !== undefined && held.line === key ? held.until : 0;
      next = Math.min(next, Math.max(later.get(key) ?? Number(dueAt), pauses.get(sub) ?? 0, holds.get(sub) ?? 0, free));
    }
    return Math.max(10, next - now);
  }

  async function open(life: Life): Promise<Storage> {
    const watchers = new Watchers();
    const tell = (keys: readonly string[]): void => watchers.notify(keys);
    const own = `${life.name}.${++opened}`;
    /** Commits that may have happened: their id, and the epoch at which they were decided. */
    const uncertain = new WeakMap<readonly Change[], { readonly id: string; readonly at: number }>();
    let known = epoch;
    let commits = 0;
    let claims = 0;
    let arrives = 0;
    let returns = 0;
    let rung = true;
    let looksAt = 0;
    const waiters: (() => void)[] = [];
    let acts: ((message: string) => Promise<unknown>) | undefined;

    const ring = (): void => {
      rung = true;
      for (const wake of waiters.splice(0)) wake();
    };
    const everything = (): void => tell(["subscription:", "control:"]);
    const seen = (at: number): void => {
      if (at === known) return;
      known = at;
      everything();
    };
    const advance = (at: number, keys: readonly string[]): void => {
      if (at > known + 1) everything();
      known = Math.max(known, at);
      tell(keys);
    };
    const node = {
      life,
      told: (at: number, keys: readonly string[]): void => {
        if (at > known) advance(at, keys);
      },
      wake: ring,
      act: async (message: string): Promise<unknown> => await acts?.(message),
    };
    nodes.add(node);

    /** One request and its answer, in order with the others of this node. @throws StorageError */
    function call<T>(changes: boolean, run: Script<T>): Promise<T> {
      if (!life.alive()) return new Promise(() => {});
      const how = cuts.get(life.name);
      if (how === "refused") {
        return new Promise((_, reject) =>
          life.after(CALL_MS * random.next(), () => reject(new StorageError("unavailable", "refused"))),
        );
      }
      const lost = how === "hole" || how === "mute";
      arrives = Math.max(arrives, world.now() + random.next() * 5);
      const arrival = how === "hole" ? world.now() + random.next() * LATE_MS : arrives;
      const vanishes = how === "hole" && random.chance(0.5);
      return new Promise((resolve, reject) => {
        // The store's side goes on whatever becomes of the node.
        if (!vanishes) {
          world.after(arrival - world.now(), () => {
            let answer: () => void;
            try {
              const value = run();
              answer = () => resolve(value);
            } catch (error) {
              answer = () => reject(error as Error);
            }
            if (lost || cuts.has(life.name)) return;
            returns = Math.max(returns, world.now() + random.next() * 5);
            life.after(returns - world.now(), answer);
          });
        }
        life.after(CALL_MS, () => reject(new StorageError(changes ? "uncertain" : "unavailable", "no answer")));
      });
    }

    async function write(
      changes: readonly Change[],
      run: (id: string, at: number, nodeNow: number) => number,
    ): Promise<void> {
      const nodeNow = life.clock.now();
      const { id, at: from } = uncertain.get(changes) ?? { id: `${own}.${++commits}`, at: known };
      const keys = watchedKeys(changes);
      try {
        const at = await call(true, () => (made.has(id) ? epoch : run(id, from, nodeNow)));
        if (keys !== undefined) advance(at, keys);
      } catch (error) {
        if (error instanceof StaleError) {
          seen(error.epoch);
          throw new ConflictError(["subscription:"]);
        }
        if (error instanceof StorageError && error.fault === "uncertain") {
          uncertain.set(changes, { id, at: from });
          if (keys !== undefined) tell(keys);
        }
        throw error;
      }
    }

    const getMany = (keys: readonly string[]): Promise<readonly (string | undefined)[]> =>
      call(false, () => keys.map(rows.get));
    const range: Storage["range"] = (prefix, options) => call(false, () => rows.range(prefix, options));
    // Events are fanned out by what a node remembers: the store refuses them when that is not the newest.
    const commit: Storage["commit"] = (changes) =>
      write(changes, (id, at, nodeNow) => {
        if (at !== epoch && changes.some(({ op, key }) => op === "put" && key.startsWith("event:")))
          throw new StaleError(epoch);
        return carryOut(id, changes, nodeNow);
      });

    const queue: Queue = {
      add() {},
      claim({ limit, perSubscription, busy }) {
        rung = false;
        const now = new Map(busy);
        const ask = (): { readonly found: Lease[]; readonly nextMs: number } => {
          const found = claimed(limit, perSubscription, now, `${own}.${++claims}`);
          return { found, nextMs: nextDue() };
        };
        return call(false, ask).then(({ found, nextMs }) => {
          if (found.length > 0) rung = true;
          looksAt = world.now() + nextMs;
          return found;
        });
      },
      wake(signal) {
        if (rung || signal.aborted) return Promise.resolve();
        return new Promise((resolve) => {
          const stop = life.after(Math.min(looksAt - world.now(), LONGEST_WAIT_MS), resolve);
          const wake = (): void => {
            stop();
            resolve();
          };
          waiters.push(wake);
          signal.addEventListener("abort", wake, { once: true });
        });
      },
      async extend(lease) {
        const at = await call(false, () => {
          const held = leaseOf(lease);
          if (held === undefined) return -1;
          held.until = serverNow() + LEASE_MS;
          return epoch;
        });
        if (at < 0) return false;
        seen(at);
        return true;
      },
      settle: (lease, changes, then) =>
        write(changes, (id, _at, nodeNow) => {
          const held = leaseOf(lease);
          if (held === undefined) throw new LeaseLostError();
          const at = carryOut(id, changes, nodeNow);
          const name = `${lease.subscriptionId}:${lease.ordinal}`;
          if (then?.keep === undefined) leases.delete(name);
          else leases.set(name, { token: held.token, line: DUE.key(then.keep), until: serverNow() + LEASE_MS });
          return at;
        }),
      async withdraw(line, changes) {
        try {
          await write(changes, (id, _at, nodeNow) => {
            const held = leases.get(`${line.subscriptionId}:${line.ordinal}`);
            if (held !== undefined && held.line === DUE.key(line) && held.until > serverNow())
              throw new LeaseLostError();
            return carryOut(id, changes, nodeNow);
          });
          return true;
        } catch (error) {
          if (error instanceof LeaseLostError) return false;
          throw error;
        }
      },
      release: (lease, dueAt) =>
        call(false, () => {
          const held = leaseOf(lease);
          if (held === undefined) return;
          leases.delete(`${lease.subscriptionId}:${lease.ordinal}`);
          later.set(held.line, dueAt === undefined ? serverNow() : dueAt + serverNow() - life.clock.now());
        }),
      pause: (subscriptionId, ms) =>
        call(false, () => {
          if (ms > 0) pauses.set(subscriptionId, serverNow() + ms);
          else pauses.delete(subscriptionId);
        }),
      hold: (subscriptionId, ms) =>
        call(false, () => {
          if (ms > 0) holds.set(subscriptionId, serverNow() + ms);
          else holds.delete(subscriptionId);
          for (const node of nodes) if (ms <= 0) node.wake();
        }),
      cancel: (subscriptionId) =>
        call(false, () => {
          for (const name of [...leases.keys()]) if (name.startsWith(`${subscriptionId}:`)) leases.delete(name);
        }),
      sweep: () => call(false, () => 0),
      pending: (ids) => call(false, () => ids.reduce((sum, id) => sum + rows.count(`due:${id}:`), 0)),
      depth: () => call(false, () => ({ waiting: rows.count("due:") - leases.size, leased: leases.size })),
    };

    /** A message reaches those whose line is whole, and is answered over it; nobody waits longer than is asked for. */
    const messages: Nodes = {
      async ask(message, { mostMs }) {
        const others = await call(false, () => [...nodes].filter((one) => one !== node && one.life.alive()));
        const told = others.map(
          (other) =>
            new Promise<void>((resolve) => {
              if (cuts.has(other.life.name)) return;
              const answer = (): void => {
                if (!cuts.has(other.life.name) && !cuts.has(life.name)) life.after(random.next() * 20, resolve);
              };
              other.life.after(random.next() * 20, () => void other.act(message).then(answer, () => undefined));
            }),
        );
        const late = new Promise<boolean>((resolve) => void life.after(mostMs, () => resolve(false)));
        return await Promise.race([Promise.all(told).then(() => true), late]);
      },
      answer(act) {
        acts = act;
        return () => void (acts = undefined);
      },
    };

    return {
      name: "simulated",
      durability: "replicated",
      nodes: messages,
      ...simpleDriver({ commit, getMany, range }),
      getMany,
      range,
      commit,
      watch: (changed) => watchers.watch(changed),
      queue,
      counters: createCounters(life.clock),
      status: async () => ({}),
      dispose: async () => void nodes.delete(node),
    };
  }

  return {
    rows: () => rows,
    open,
    cut(name, how) {
      if (how === "whole") cuts.delete(name);
      else cuts.set(name, how);
    },
    forgetLeases: () => leases.clear(),
  };
}
