/**
 * The storage port: an unstorage driver plus what a plain key-value store cannot promise.
 *
 * Keys are printable ASCII, parts separated by `:`, ordered byte by byte. Values are text. The first part is the shelf
 * (`event`, `due`, …, see `core/model/keys.ts`).
 */
import type { Driver } from "unstorage";
import type { Due } from "../model/delivery.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import type { Take, WindowResult } from "../model/windows.ts";

/**
 * What a resolved `commit` means. `fsync`: synced to the disk of the machine or engine that keeps it; `replicated`: that,
 * and acknowledged by another copy; `volatile`: neither.
 */
export type Durability = "fsync" | "replicated" | "volatile";

export interface Entry {
  readonly key: string;
  readonly value: string;
}

/**
 * One line of a commit. `if` makes it conditional: `null` asks that the key be absent, a text that the value be exactly
 * that text now. `check` asks without changing.
 */
export type Change =
  | { readonly op: "put"; readonly key: string; readonly value: string; readonly if?: string | null }
  | { readonly op: "delete"; readonly key: string; readonly if?: string }
  | { readonly op: "check"; readonly key: string; readonly if: string | null };

export interface RangeOptions {
  /** Start behind this key (exclusive), in the direction of reading. */
  readonly after?: string;
  /** @default 100 */
  readonly limit?: number;
  /** @default false */
  readonly reverse?: boolean;
}

export interface Storage extends Omit<Driver, "getItem" | "watch"> {
  /** As it is now: a shared store may be set up otherwise while it runs. */
  readonly durability: Durability;
  getItem(key: string): Promise<string | undefined>;
  /** Values in the order of `keys`; `undefined` where there is none. */
  getMany(keys: readonly string[]): Promise<readonly (string | undefined)[]>;
  /**
   * All or nothing, in the order given, durable when it resolves. A rejected commit has changed nothing, except
   * `StorageError("uncertain")`, after which it may have: repeat it, ids are derived so that this is safe.
   * @throws ConflictError naming the keys whose `if` did not hold; or `subscription:` when it has new events (put with
   * `if: null`) and another node has changed subscriptions of theirs that this one had not been told of. It is told then.
   * @throws StorageError `unavailable`, `full` or `uncertain`
   */
  commit(changes: readonly Change[]): Promise<void>;
  /** Entries whose key starts with `prefix`, in key order. Sees every commit that resolved before the call. */
  range(prefix: string, options?: RangeOptions): Promise<readonly Entry[]>;
  /**
   * Calls `changed` with keys of the `subscription` and `control` shelves that any node's commit touched, soon after it
   * (before the commit resolves, for commits of this process). A bare `subscription:` or `control:` says that messages
   * were missed: anything of that shelf may have changed. Returns what ends it.
   */
  watch(changed: (keys: readonly string[]) => void): () => void;
  /**
   * Tells of every commit from now on, in the order in which they happened, each right after it; returns what ends it.
   * One that may or may not have happened is told as not certain. Absent where commits of other processes could not be
   * told: then no backup is taken while others write.
   */
  tap?(committed: (changes: readonly Change[], certain: boolean) => void): () => void;
  readonly queue: Queue;
  readonly counters: Counters;
  /** Absent where no other node can use the same storage. */
  readonly nodes?: Nodes;
  /** Figures for operators: bytes used, rows, and whatever else it can say. Cheap. */
  status(): Promise<Readonly<Record<string, string | number | boolean>>>;
  /** Space for what is stored: a disk's, or a server's memory. `undefined` where there is no bound that it knows of. */
  room?(): Promise<StorageSpace | undefined>;
  /** Epoch ms of its own clock, where it has one: decisions of several nodes are made by it. */
  time?(): Promise<number>;
  /** Looks at the structure of its own files as a whole: what is wrong with them, a line each. May take long; only reads. */
  verify?(): Promise<readonly string[]>;
  /** Finishes what was committed and lets go of files, sockets and threads. May be called twice. */
  dispose(): Promise<void>;
}

export interface StorageSpace {
  /** Bytes that may still be written. */
  readonly freeBytes: number;
  /** Bytes of the whole. */
  readonly totalBytes: number;
}

/** The right to make the next attempts of one delivery. Only the newest holder may settle. */
export interface Lease extends Due {
  readonly token: string;
}

export interface ClaimRequest {
  readonly limit: number;
  /** Most deliveries of one subscription under way on this node: what `busy` says, and what is claimed. */
  readonly perSubscription: number;
  /** How many of each subscription count as under way on this node. */
  readonly busy: ReadonlyMap<string, number>;
}

/**
 * What is due when: an index over the `due` shelf, which is written in the commit that sets the time. It holds ids and
 * times, never bodies, and losing it loses nothing.
 */
export interface Queue {
  /** Tells of lines that a commit has just written. Not telling only delays them until the next `sweep`. */
  add(dues: readonly Due[]): void;
  /** Takes up to `limit` of what is due, fairly over subscriptions, oldest first within one. Never waits for the future. */
  claim(request: ClaimRequest): Promise<readonly Lease[]>;
  /** Resolves when a claim may find something (soon, or at the next due time), or when `signal` aborts; never rejects. */
  wake(signal: AbortSignal): Promise<void>;
  /**
   * Renews the lease for another term, before each attempt.
   * False when it was lost, or its subscription cancelled, in the meantime: then nothing may be sent.
   */
  extend(lease: Lease): MaybePromise<boolean>;
  /**
   * Renews many leases for another term: of deliveries whose attempt or wait goes on. To be called every `everyMs` with all
   * that are under way; one that was lost in the meantime stays lost. Absent where leases last as long as the process.
   */
  readonly renewal?: { readonly everyMs: number; renew(leases: Iterable<Lease>): Promise<void> };
  /**
   * Commits `changes` if the lease is still the newest, and ends it unless `keep` is given: then the lease goes on, its
   * line in the due index being `keep`. When the changes write a due line for later, `next` tells of it.
   * @throws LeaseLostError when another holder took over or the subscription was cancelled; nothing was changed
   */
  settle(lease: Lease, changes: readonly Change[], then?: { readonly next?: Due; readonly keep?: Due }): Promise<void>;
  /** Gives the delivery back unharmed, due again at `dueAt` (epoch ms; now when left out). The stored line stays as it is. */
  release(lease: Lease, dueAt?: number): Promise<void>;
  /**
   * Nothing of this subscription is claimed for `ms` from now; 0 lifts it. A length, not a time: the clock of a node that
   * was wrong for a moment must not decide how long all wait. Stored lines stay as they are.
   */
  pause(subscriptionId: string, ms: number): Promise<void>;
  /**
   * Nothing of this subscription is claimed for `ms` from now; 0 lifts it. The same as `pause`, and apart from it: a node's
   * own word, which has no slot for it, and the receiver's end by themselves, and the later end counts.
   */
  hold(subscriptionId: string, ms: number): Promise<void>;
  /** Drops what it holds of this subscription and makes every lease of it lost, on every node, before it resolves. */
  cancel(subscriptionId: string): Promise<void>;
  /** Refills from storage: what is due and not known here, and what lapsed leases left behind. Resolves to the number found. */
  sweep(): Promise<number>;
  depth(): Promise<QueueDepth>;
  /** How many lines of these subscriptions the due index has, leased ones included. */
  pending(subscriptionIds: readonly string[]): Promise<number>;
}

export interface QueueDepth {
  /** Lines of the due index that this queue knows of or can count cheaply. */
  readonly waiting: number;
  readonly leased: number;
  /** Epoch ms of the oldest line that is due, not leased, and not of a paused subscription. */
  readonly oldestDueAt?: number;
}

/** The other nodes on the same storage: one asks, each of them acts, and the one who asked knows when they have. */
export interface Nodes {
  /**
   * Tells every other node. What was committed before, they know of when they hear it. Resolves to true when each has
   * acted, to false when `mostMs` were over first. A node that gave no sign of life for `silentMs` is not waited for.
   * @throws StorageError when they cannot be told
   */
  ask(word: string, wait: { readonly mostMs: number; readonly silentMs: number }): Promise<boolean>;
  /** Calls `act` with what other nodes ask, once for each question; they wait until it resolves. Returns what ends it. */
  answer(act: (word: string) => Promise<unknown>): () => void;
}

/** The two-window decision of the limiter, atomic over all nodes that share the storage. */
export interface Counters {
  /** Checks every take, then commits all or none of them. A refused one consumes nothing and moves no window. */
  take(takes: readonly Take[]): Promise<readonly WindowResult[]> | readonly WindowResult[];
  /**
   * Undoes committed takes (for answers that were our own fault). `taken` is what `take` said of them: windows that ended
   * since are left alone.
   */
  giveBack(takes: readonly Take[], taken: readonly WindowResult[]): Promise<void> | void;
  /**
   * Puts a stored suspension back after a start. Absent where suspensions outlive the process by themselves.
   * @param leftMs how long it still lasts; 0 when only the strikes are left of it
   * @param ageMs how long ago it began
   */
  restore?(
    key: string,
    suspension: { readonly strikes: number; readonly leftMs: number; readonly ageMs: number },
  ): void;
}
