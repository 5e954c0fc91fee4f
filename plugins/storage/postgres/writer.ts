/** Makes commits: those that come while one batch is under way go together in the next. */
import { ConflictError, LeaseLostError, StorageError } from "../../../core/model/errors.ts";
import { SUBSCRIPTION } from "../../../core/model/schema.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import type { Change } from "../../../core/ports/storage.ts";
import { Batch, type Birth, type Fence, type Step, stepOf } from "./batch.ts";
import type { Channel } from "./channel.ts";
import type { Link } from "./link.ts";
import type { TimeArgument } from "./time-argument.ts";

/** Most steps of a batch, and most bytes: one that is larger goes alone. */
const GROUP = 256;
const GROUP_BYTES = 4 * 1024 * 1024;
/** How long an answer may take, and for each MB of it, ms. */
const ANSWER_MS = 4_000;
const MB_MS = 4_000;

interface Reply {
  readonly b?: readonly (readonly [step: number, key: string])[];
  readonly l?: readonly number[];
  readonly o?: readonly number[];
  /** The new epoch, and the one before. */
  readonly e?: string;
  readonly t?: readonly string[];
}

interface Waiting {
  readonly step: Step;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** What the writer tells the queue of. */
export interface Told {
  /** Says whether this node takes a line of that subscription at birth. */
  bears(subscriptionId: string): boolean;
  /** These lines are leased to this node until that monotonic time. */
  born(births: readonly Birth[], until: number): void;
  /** These may be, but nobody knows: they are given back. */
  orphaned(births: readonly Birth[]): void;
  /** Something may be due in so many ms. */
  due(inMs: number): void;
}

interface WriterDeps {
  readonly link: Link;
  readonly schema: string;
  readonly clock: Clock;
  readonly time: TimeArgument;
  readonly node: string;
  readonly leaseMs: number;
  readonly channel: Pick<Channel, "epoch" | "own" | "look">;
  readonly told: Told;
}

export class Writer {
  readonly #deps: WriterDeps;
  readonly #steps: string;
  readonly #outcome: string;
  #waiting: Waiting[] = [];
  #scheduled = false;
  #flying = false;
  #made = 0;
  readonly #underWay = new Set<Promise<void>>();
  /** Commits that may have happened: the batch of each, and its place there. */
  readonly #uncertain = new WeakMap<readonly Change[], { readonly id: string; readonly at: number }>();

  constructor(deps: WriterDeps) {
    this.#deps = deps;
    const marks = Array.from({ length: 40 }, (_, i) => `$${i + 1}`).join(",");
    this.#steps = `select * from "${deps.schema}".steps(${marks})`;
    this.#outcome = `select * from "${deps.schema}".outcome($1,$2,$3)`;
  }

  /** @throws ConflictError, LeaseLostError, StorageError */
  async commit(changes: readonly Change[], fence?: Fence): Promise<void> {
    const before = this.#uncertain.get(changes);
    if (before !== undefined && (await this.#ended(changes, before))) return;
    const step = stepOf(changes, this.#deps.channel.epoch, fence);
    const work = new Promise<void>((resolve, reject) => {
      this.#waiting.push({ step, resolve, reject });
      this.#schedule();
    });
    this.#underWay.add(work);
    try {
      await work;
    } finally {
      this.#underWay.delete(work);
    }
  }

  /** Resolves when no commit is under way. */
  async ended(): Promise<void> {
    await Promise.allSettled(this.#underWay);
  }

  /** Returns whether a commit whose answer was lost has been made after all. If not, it never will be. @throws as `commit` */
  async #ended(changes: readonly Change[], { id, at }: { readonly id: string; readonly at: number }): Promise<boolean> {
    const values = (): readonly unknown[] => [...this.#deps.time.now(), id];
    const [row] = await this.#deps.link.run({ text: this.#outcome, values }, { changes: true });
    this.#uncertain.delete(changes);
    if (row?.[0] !== "t") return false;
    const refusal = refusalOf(JSON.parse(row[1] ?? "{}") as Reply).get(at);
    if (refusal !== undefined) throw refusal;
    return true;
  }

  #schedule(): void {
    if (this.#scheduled || this.#flying || this.#waiting.length === 0) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      this.#flying = true;
      void this.#fly(this.#gather()).finally(() => {
        this.#flying = false;
        this.#schedule();
      });
    });
  }

  /** Takes steps that share no key: none sees what another writes. Those that change what nodes watch go alone. */
  #gather(): readonly Waiting[] {
    const group: Waiting[] = [];
    const rest: Waiting[] = [];
    const touched = new Set<string>();
    let bytes = 0;
    let full = false;
    for (const one of this.#waiting) {
      const { keys, watched, bytes: size } = one.step;
      const apart = group.length > 0 && (watched !== undefined || bytes + size > GROUP_BYTES);
      if (full || apart || keys.some((key) => touched.has(key))) {
        rest.push(one);
        // Large ones are not passed for ever.
        full ||= apart;
      } else {
        group.push(one);
        bytes += size;
        full = group.length >= GROUP || watched !== undefined;
      }
      if (!full) for (const key of keys) touched.add(key);
    }
    this.#waiting = rest;
    return group;
  }

  async #fly(group: readonly Waiting[]): Promise<void> {
    if (group.length === 0) return;
    const { link, clock, time, node, leaseMs, told } = this.#deps;
    const id = `${node}.${(++this.#made).toString(36)}`;
    const bears = (sub: string): boolean => told.bears(sub);
    const batch = new Batch(
      group.map(({ step }) => step),
      { id, leaseMs, nodeNow: clock.now(), bears },
    );
    let sentAt = clock.monotonic();
    const values = (): readonly unknown[] => {
      sentAt = clock.monotonic();
      return batch.values(time.now());
    };
    const raced = (): void => void (batch.careful = true);
    const answerMs = ANSWER_MS + (batch.bytes / 1024 ** 2) * MB_MS;
    try {
      const [row] = await link.run({ name: "steps", text: this.#steps, values }, { changes: true, answerMs, raced });
      this.#answer(group, batch, (row?.[0] ?? undefined) as string | undefined, sentAt + leaseMs);
      if (row?.[1] !== null && row?.[1] !== undefined) told.due(Number(row[1]));
    } catch (error) {
      if (error instanceof StorageError && error.fault === "broken" && group.length > 1) {
        // One of them has something that PostgreSQL does not take: the others go on without it.
        for (const one of group) await this.#fly([one]);
        return;
      }
      this.#fail(group, batch, error);
    }
  }

  #fail(group: readonly Waiting[], batch: Batch, error: unknown): void {
    const uncertain = error instanceof StorageError && error.fault === "uncertain";
    this.#deps.told.orphaned(uncertain ? batch.births : []);
    for (const [at, { step, reject }] of group.entries()) {
      if (uncertain) {
        this.#uncertain.set(step.changes, { id: batch.id, at });
        // It may have happened: caches of these keys must be read again.
        if (step.watched !== undefined) this.#deps.channel.own(step.watched);
      }
      reject(error);
    }
  }

  #answer(group: readonly Waiting[], batch: Batch, text: string | undefined, until: number): void {
    const { channel, told } = this.#deps;
    const reply = text === undefined ? {} : (JSON.parse(text) as Reply);
    const refusals = refusalOf(reply);
    if (batch.births.length > 0) {
      // It may have been refused where lines wait, or rest.
      const given = reply.t === undefined ? undefined : new Set(reply.t);
      const born = batch.births.filter(
        ({ step, lease }) => !refusals.has(step) && (given === undefined || given.has(lease.token)),
      );
      told.born(born, until);
      if (born.length < batch.births.length) told.due(0);
    }
    if (batch.leaves) told.due(0);
    if (reply.o !== undefined && reply.o.length > 0) {
      // It learns of the change before it is refused.
      void channel.look().finally(() => settle(group, refusals));
      return;
    }
    if (reply.e !== undefined)
      channel.own(
        group.flatMap(({ step }) => step.watched ?? []),
        reply.e,
      );
    settle(group, refusals);
  }
}

function settle(group: readonly Waiting[], refusals: ReadonlyMap<number, Error>): void {
  for (const [i, { resolve, reject }] of group.entries()) {
    const refusal = refusals.get(i);
    if (refusal === undefined) resolve();
    else reject(refusal);
  }
}

/** Returns the refusals by the place of the step. */
function refusalOf({ b = [], l = [], o = [] }: Reply): ReadonlyMap<number, Error> {
  const refusals = new Map<number, Error>();
  for (const step of l) refusals.set(step, new LeaseLostError());
  const bad = new Map<number, Set<string>>();
  for (const [step, key] of b) bad.set(step, (bad.get(step) ?? new Set()).add(key));
  for (const [step, keys] of bad) refusals.set(step, new ConflictError([...keys]));
  for (const step of o) refusals.set(step, new ConflictError([SUBSCRIPTION.start]));
  return refusals;
}
