/**
 * The storage port: an unstorage driver plus what a plain key-value store cannot promise.
 *
 * Keys are printable ASCII, parts separated by `:`, ordered byte by byte. Values are text. The first part is the key
 * prefix (`event`, `due`, …, see `core/model/schema.ts`).
 */
import type { Driver } from "unstorage";
import type { Change } from "../model/kind.ts";
import type { Due } from "../model/delivery.ts";
import type { MaybePromise } from "../lib/maybe-promise.ts";
import type { Take, WindowResult } from "../model/windows.ts";

export type { Change };

/**
 * The worth of a resolved `commit`. `fsync`: synced to the disk of the machine or engine that keeps it. `replicated`:
 * synced, and acknowledged by another copy. `volatile`: neither.
 */
export type Durability = "fsync" | "replicated" | "volatile";

export interface Entry {
  readonly key: string;
  readonly value: string;
}

export interface RangeOptions {
  /** Starts after this key (exclusive), in the direction of reading. */
  readonly after?: string;
  /** @default 100 */
  readonly limit?: number;
  /** @default false */
  readonly reverse?: boolean;
}

export interface Storage extends Omit<Driver, "getItem" | "watch"> {
  /** The durability at this moment. The operator of a shared store may change it while the relay runs. */
  readonly durability: Durability;
  getItem(key: string): Promise<string | undefined>;
  /** Returns values in the order of `keys`; `undefined` where a key is absent. */
  getMany(keys: readonly string[]): Promise<readonly (string | undefined)[]>;
  /**
   * Writes all changes or none, in the order given; they are durable when it resolves. A rejected commit has changed
   * nothing, except with `StorageError("uncertain")`, after which it may have: repeat it, since derived ids make that
   * safe.
   * @throws ConflictError naming the keys whose `if` did not hold; or `subscription:` when the commit has new events
   * (put with `if: null`) and another node changed subscriptions of their keys that this node has not heard of yet. It
   * hears of them before this rejects.
   * @throws StorageError `unavailable`, `full` or `uncertain`
   */
  commit(changes: readonly Change[]): Promise<void>;
  /** Returns entries whose key starts with `prefix`, in key order. Sees every commit that resolved before the call. */
  range(prefix: string, options?: RangeOptions): Promise<readonly Entry[]>;
  /**
   * Calls `changed` with the `subscription` and `control` keys that a commit of any node touched, soon after it (before
   * the commit resolves, or rejects as `uncertain`, for commits of this process). A bare `subscription:` or `control:` means that messages were
   * missed: any key with that prefix may have changed. Returns a function that stops it.
   */
  watch(changed: (keys: readonly string[]) => void): () => void;
  /**
   * Calls `committed` for every commit from now on, in their order, right after each. `certain` is false for a commit
   * that may or may not have happened. Returns a function that stops it. Absent where commits of other processes cannot
   * be observed: then no backup is taken while others write.
   */
  tap?(committed: (changes: readonly Change[], certain: boolean) => void): () => void;
  readonly queue: Queue;
  readonly counters: Counters;
  /** Absent where no other node can use the same storage. */
  readonly nodes?: Nodes;
  /** Facts for operators: bytes used, rows, and whatever else the storage knows. Cheap. */
  status(): Promise<Readonly<Record<string, string | number | boolean>>>;
  /** The space for stored data: a disk's, or a server's memory. `undefined` where the storage knows of no bound. */
  room?(): Promise<StorageSpace | undefined>;
  /** Epoch ms of the storage's own clock, where it has one. Decisions that concern several nodes use it. */
  time?(): Promise<number>;
  /** Checks the structure of the storage's own files and returns one line per fault. May take long; only reads. */
  verify?(): Promise<readonly string[]>;
  /** Finishes what was committed and closes files, sockets and threads. May be called twice. */
  dispose(): Promise<void>;
}

export interface StorageSpace {
  /** Bytes that can still be written. */
  readonly freeBytes: number;
  /** Bytes in all, used and free. */
  readonly totalBytes: number;
}

/** The right to make the next attempts of one delivery. Only the newest holder may settle. */
export interface Lease extends Due {
  readonly token: string;
}

export interface ClaimRequest {
  readonly limit: number;
  /** Most deliveries of one subscription under way on this node: those in `busy` and those claimed now. */
  readonly perSubscription: number;
  /** How many deliveries of each subscription are under way on this node. Below 0: it has room for so many more. */
  readonly busy: ReadonlyMap<string, number>;
}

/**
 * The queue of due deliveries: an index over the `due` keys, which are written in the commit that sets the time. It
 * holds ids and times, never bodies; losing it loses nothing.
 */
export interface Queue {
  /** Adds due lines that a commit has just written. A line that is not added waits for the next `sweep`. */
  add(dues: readonly Due[]): void;
  /**
   * Leases a line that a commit of this node has just written, in place of `add`, at once and without a claim: nobody
   * waits before it, in its own subscription or another, and its subscription is neither paused nor held. `undefined`:
   * somebody waits, so `add` it. Absent where other nodes claim from the same queue.
   */
  lend?(due: Due): Lease | undefined;
  /**
   * Returns true when no line is due, in storage neither, whatever is under way: a claim would find nothing until `wake`
   * resolves. Cheap. Absent where nobody knows.
   */
  empty?(): boolean;
  /** Takes up to `limit` due deliveries, fairly over subscriptions, oldest first within one. Never waits for the future. */
  claim(request: ClaimRequest): Promise<readonly Lease[]>;
  /** Resolves when a claim may find something (soon, or at the next due time), or when `signal` aborts. Never rejects. */
  wake(signal: AbortSignal): Promise<void>;
  /**
   * Renews the lease for another term, before each attempt. Returns false when it was lost, or its subscription
   * cancelled, in the meantime: then nothing may be sent.
   */
  extend(lease: Lease): MaybePromise<boolean>;
  /**
   * Renews many leases for another term: those of deliveries whose attempt or wait goes on. Call it every `everyMs`
   * with all that are under way. A lost lease stays lost. Absent where leases last as long as the process.
   */
  readonly renewal?: { readonly everyMs: number; renew(leases: Iterable<Lease>): Promise<void> };
  /**
   * Commits `changes` if the lease is still the newest, and ends the lease. With `keep` the lease goes on, and `keep`
   * is its line in the due index. `next` is the due line that the changes write for later. With neither, and while
   * nothing is due, it may take some ms longer, to become durable together with commits that come meanwhile.
   * @throws LeaseLostError when another holder took over or the subscription was cancelled; nothing was changed
   */
  settle(lease: Lease, changes: readonly Change[], then?: { readonly next?: Due; readonly keep?: Due }): Promise<void>;
  /**
   * Commits `changes`, which move or end this line, unless a node holds a lease of it: one with an attempt under way, or
   * one that waits for a later attempt. Nobody can claim the line meanwhile. `next` is the line of the same delivery that
   * the changes write, or leave as it is. For changes that a person makes.
   * @returns false, with nothing changed, when it is leased
   * @throws ConflictError, StorageError, as `Storage.commit`
   */
  withdraw(line: Due, changes: readonly Change[], next?: Due): Promise<boolean>;
  /** Returns the delivery to the queue, due at `dueAt` (epoch ms, default now). Its stored line stays as it is. */
  release(lease: Lease, dueAt?: number): Promise<void>;
  /**
   * Claims nothing of this subscription for `ms` from now; 0 lifts it. It takes a length, not a time, so that the wrong
   * clock of one node cannot decide how long all of them wait. Stored lines stay as they are.
   */
  pause(subscriptionId: string, ms: number): Promise<void>;
  /**
   * Claims nothing of this subscription for `ms` from now; 0 lifts it. Like `pause`, but kept apart from it: `hold` is
   * for a node that cannot serve the subscription now (slots, rate, transforms), `pause` for the receiver's wish. The later end counts.
   */
  hold(subscriptionId: string, ms: number): Promise<void>;
  /** Drops the subscription's deliveries from the queue and ends every lease of it, on all nodes, before it resolves. */
  cancel(subscriptionId: string): Promise<void>;
  /** Refills the queue from storage: due lines that it lacks, and those of lapsed leases. Resolves to their number. */
  sweep(): Promise<number>;
  depth(): Promise<QueueDepth>;
  /** Counts the lines of these subscriptions in the due index, leased ones included. */
  pending(subscriptionIds: readonly string[]): Promise<number>;
}

export interface QueueDepth {
  /** Lines of the due index that this queue holds or can count cheaply. */
  readonly waiting: number;
  readonly leased: number;
  /** Epoch ms of the oldest line that is due, not leased, and not of a paused subscription. */
  readonly oldestDueAt?: number;
}

/** The other nodes on the same storage. One node asks, each other one acts, and the first learns when they have. */
export interface Nodes {
  /**
   * Sends `message` to every other node. A node that gets it sees everything committed before the call. Resolves to true
   * when each node has acted, to false when `mostMs` ran out first. It does not wait for a node that gave no sign of
   * life for `silentMs`: that one gets the message when it goes on.
   * @throws StorageError when the message cannot be sent
   */
  ask(message: string, wait: { readonly mostMs: number; readonly silentMs: number }): Promise<boolean>;
  /** Calls `act` with each message of another node, which waits until it resolves. Returns a function that stops it. */
  answer(act: (message: string) => Promise<unknown>): () => void;
}

/** The two-window decision of the limiter, atomic over all nodes that share the storage. */
export interface Counters {
  /** Checks every take, then counts all or none of them. A refused take consumes nothing and moves no window. */
  take(takes: readonly Take[]): Promise<readonly WindowResult[]> | readonly WindowResult[];
  /**
   * Undoes counted takes, for answers that failed by our own fault. `taken` is what `take` returned for them; windows
   * that have ended since are left alone.
   */
  giveBack(takes: readonly Take[], taken: readonly WindowResult[]): Promise<void> | void;
  /**
   * Restores a stored suspension after a start. Absent where suspensions outlive the process by themselves.
   * @param leftMs how long it still lasts; 0 when only its strikes count
   * @param ageMs how long ago it began
   */
  restore?(
    key: string,
    suspension: { readonly strikes: number; readonly leftMs: number; readonly ageMs: number },
  ): void;
}
