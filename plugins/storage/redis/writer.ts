/** Writes commits of every size: conditions, rows and the due index in one script, under an id that identifies a repeat. */
import { ConflictError, LeaseLostError, StorageError } from "../../../core/model/errors.ts";
import { EVENT, SUBSCRIPTION } from "../../../core/model/schema.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import type { Change } from "../../../core/ports/storage.ts";
import { watchedKeys } from "../embedded/watch.ts";
import type { Calls } from "./calls.ts";
import type { Channel } from "./channel.ts";
import { STEPS } from "./commit-lua.ts";
import { sizeOf } from "./script.ts";
import type { Now } from "./time-argument.ts";

/** Most steps in one call, which together are not large either: Redis does nothing else meanwhile. */
const GROUP = 64;
/** Ids of commits are remembered in sets, a new one after so many ms. Redis keeps each for 30 s: longer than a repeat takes. */
const SET_MS = 5_000;

type Kind = "commit" | "settle" | "withdraw" | "extend";

/** See `STEPS`: the epoch and the one before it, keys of a conflict, a lost lease, or the epoch of an outdated fan-out. */
type Reply =
  | readonly [done: 0, epoch: string, before?: string]
  | readonly [conflict: 1, ...keys: string[]]
  | readonly [lost: 2]
  | readonly [outdated: 3, epoch: string];

interface Step {
  readonly kind: Kind;
  readonly args: readonly (string | number)[];
  readonly size: number;
  readonly resolve: (reply: Reply) => void;
  readonly reject: (error: unknown) => void;
}

interface WriterDeps {
  readonly calls: Pick<Calls, "run">;
  /** Runs a large step, which goes alone, so that neither its length nor its failure affects other callers. */
  readonly large: Calls["run"];
  readonly clock: Pick<Clock, "now" | "monotonic">;
  readonly now: Now;
  readonly node: string;
  /** Most calls under way at once; steps that come meanwhile go together. */
  readonly flights: number;
  readonly channel: Pick<Channel, "epoch" | "own" | "atEpoch" | "checkRecords">;
  /** Called with how soon a claim of this node may find something new. */
  readonly due: (inMs: number) => void;
}

/** Sends concurrent steps in one round trip: a call costs more than what most of them do. */
export class Writer {
  readonly #deps: WriterDeps;
  readonly #pending: Step[] = [];
  /** The time when the arguments are sent: they may wait for others. */
  readonly #nodeNow: { toString(): string };
  #flights = 0;
  #scheduled = false;
  #made = 0;
  /** Commits that may have happened: repeated with the same list, they are not made twice. */
  readonly #uncertain = new WeakMap<readonly Change[], readonly string[]>();
  readonly #underWay = new Set<Promise<void>>();

  constructor(deps: WriterDeps) {
    this.#deps = deps;
    this.#nodeNow = { toString: () => String(deps.clock.now()) };
  }

  async commit(changes: readonly Change[]): Promise<void> {
    if (changes.length > 0) await this.#track(this.#run("commit", [], changes));
  }

  /** @param held subscription, ordinal, token, line to keep or empty, lease ms */
  settle(held: readonly (string | number)[], changes: readonly Change[]): Promise<void> {
    return this.#track(this.#run("settle", held, changes));
  }

  /**
   * @param line subscription, ordinal, line
   * @throws LeaseLostError when it is leased
   */
  withdraw(line: readonly string[], changes: readonly Change[]): Promise<void> {
    return this.#track(this.#run("withdraw", line, changes));
  }

  /**
   * @param held subscription, ordinal, token, lease ms
   * @returns whether it is still held
   */
  async extend(held: readonly (string | number)[]): Promise<boolean> {
    const [end, epoch] = await this.#step("extend", held);
    if (end === 0) this.#deps.channel.atEpoch(epoch as string);
    return end === 0;
  }

  /** Resolves when no commit is under way. */
  async ended(): Promise<void> {
    await Promise.allSettled(this.#underWay);
  }

  #track(work: Promise<void>): Promise<void> {
    this.#underWay.add(work);
    const over = (): void => void this.#underWay.delete(work);
    work.then(over, over);
    return work;
  }

  async #run(kind: Kind, held: readonly (string | number)[], changes: readonly Change[]): Promise<void> {
    const { channel } = this.#deps;
    const own = this.#uncertain.get(changes) ?? this.#identity(changes);
    const watched = watchedKeys(changes);
    const message = watched === undefined ? "" : JSON.stringify(watched);
    const [id = "", set = "", known = ""] = own;
    const head = [id, set, message, ...(kind === "commit" ? [known] : held)];
    let reply: Reply;
    try {
      reply = await this.#step(kind, [...head, ...changes.flatMap(flatten)]);
    } catch (error) {
      if (error instanceof StorageError && error.fault === "uncertain") {
        this.#uncertain.set(changes, own);
        // It may have happened: caches of these keys must be read again.
        if (watched !== undefined) channel.own(undefined, undefined, watched);
      }
      throw error;
    }
    const [end, ...rest] = reply;
    if (end === 1) throw new ConflictError(rest as string[]);
    if (end === 2) throw new LeaseLostError();
    const [epoch, before] = rest as [string, string?];
    if (end === 3) {
      channel.atEpoch(epoch);
      channel.checkRecords();
      throw new ConflictError([SUBSCRIPTION.start]);
    }
    if (watched !== undefined) channel.own(epoch, before, watched);
  }

  /** Returns an id, the set in which Redis remembers it, and the epoch that new events were fanned out at or empty. */
  #identity(changes: readonly Change[]): readonly string[] {
    const { node, clock, channel } = this.#deps;
    // The first id of a set decides when Redis forgets the whole set. So a set holds ids of one node only, and its name is
    // made from monotonic time: neither another node's clock nor a step of this one's makes an id be forgotten too soon.
    const set = `${node}.${Math.floor(clock.monotonic() / SET_MS)}`;
    const known = changes.some(isNewEvent) ? channel.epoch : "";
    return [`${node}.${(++this.#made).toString(36)}`, set, known];
  }

  #step(kind: Kind, args: readonly (string | number)[]): Promise<Reply> {
    return new Promise((resolve, reject) => {
      const step: Step = { kind, args, size: sizeOf(args), resolve, reject };
      if (step.size > 1) return void this.#send(this.#deps.large, [step]);
      this.#pending.push(step);
      this.#schedule();
    });
  }

  #schedule(): void {
    if (this.#scheduled || this.#flights >= this.#deps.flights || this.#pending.length === 0) return;
    this.#scheduled = true;
    // After everything that is ready now, since it may add more steps.
    setImmediate(() => {
      this.#scheduled = false;
      this.#flights++;
      const run: Calls["run"] = (...call) => this.#deps.calls.run(...call);
      void this.#send(run, this.#gather()).then(() => {
        this.#flights--;
        this.#schedule();
      });
      this.#schedule();
    });
  }

  #gather(): readonly Step[] {
    let n = 0;
    for (let size = 0; n < this.#pending.length && n < GROUP; n++) {
      size += (this.#pending[n] as Step).size;
      if (n > 0 && size > 1) break;
    }
    return this.#pending.splice(0, n);
  }

  /** Never rejects: each caller gets its own result. */
  async #send(run: Calls["run"], group: readonly Step[]): Promise<void> {
    const { now, due } = this.#deps;
    const args = group.flatMap(({ kind, args: own }) => [kind, own.length, ...own]);
    const changes = group.some(({ kind }) => kind !== "extend");
    try {
      const reply = await run(STEPS, [now(), this.#nodeNow, ...args], { changes });
      const [wakeIn, ...replies] = reply as [number, ...Reply[]];
      if (wakeIn >= 0) due(wakeIn);
      for (const [i, { resolve }] of group.entries()) resolve(replies[i] as Reply);
    } catch (error) {
      // Refused because of one of them: each is tried alone. Those already made are known by their id.
      const one = error instanceof StorageError && (error.fault === "full" || error.fault === "broken");
      if (one && group.length > 1) for (const each of group) await this.#send(run, [each]);
      else for (const { reject } of group) reject(error);
    }
  }
}

/** An event that was fanned out by this node's cache of subscriptions. */
const isNewEvent = (change: Change): boolean => change.op === "put" && change.if === null && EVENT.has(change.key);

function flatten(change: Change): readonly string[] {
  const kind = change.if === undefined ? "" : change.if === null ? "absent" : "is";
  return [change.op, change.key, change.op === "put" ? change.value : "", kind, change.if ?? ""];
}
