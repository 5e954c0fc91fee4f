/** One batch of steps, as the arguments of the function that makes them. */
import { type Due, neverTried } from "../../../core/model/delivery.ts";
import { DAMAGED } from "../../../core/model/kind.ts";
import { DUE, EVENT, SUBSCRIPTION } from "../../../core/model/schema.ts";
import type { Change, Lease } from "../../../core/ports/storage.ts";
import { watchedKeys } from "../embedded/watch.ts";
import { ints, longs, texts } from "./arrays.ts";
import type { Epoch } from "./channel.ts";

/** The line that a step has leased; without a token: one that nobody may have leased. */
export interface Fence {
  readonly key: string;
  readonly token: string;
  /** The key of the line that keeps the lease. */
  readonly keep?: string;
}

export interface Step {
  readonly changes: readonly Change[];
  readonly fence: Fence | undefined;
  /** The value that each key has in the end; null: none. */
  readonly writes: ReadonlyMap<string, string | null>;
  readonly conditions: readonly (readonly [key: string, text: string | null])[];
  readonly watched: readonly string[] | undefined;
  /** Keys of new events, which were fanned out by the subscriptions of that epoch. */
  readonly fanned: ReadonlySet<string>;
  readonly epoch: Epoch;
  /** All keys that it reads or writes. */
  readonly keys: readonly string[];
  readonly bytes: number;
}

export function stepOf(changes: readonly Change[], epoch: Epoch, fence?: Fence): Step {
  const writes = new Map<string, string | null>();
  const conditions: [string, string | null][] = [];
  const keys = new Set<string>();
  const fanned = new Set<string>();
  let bytes = 0;
  for (const change of changes) {
    const { op, key } = change;
    keys.add(key);
    bytes += key.length + 40;
    if (change.if !== undefined) conditions.push([key, change.if]);
    if (op === "check") continue;
    if (op === "put") bytes += change.value.length;
    writes.set(key, op === "put" ? change.value : null);
    if (op === "put" && change.if === null && EVENT.has(key)) fanned.add(EVENT.id(key).keyId);
  }
  if (fence !== undefined) keys.add(fence.key);
  return { changes, fence, writes, conditions, watched: watchedKeys(changes), fanned, epoch, keys: [...keys], bytes };
}

/** The longest wait that a policy may ask for, ms: for lines that do not state their wait. */
const LONGEST_MS = 95_040_000;
/** Of a line whose key is none: it is never due. */
const NEVER_MS = 8e15;

/** Returns in how many ms a line may be claimed: what was never tried at once, any other after no more than its wait. */
export function dueIn(due: Due | typeof DAMAGED, nodeNow: number): number {
  if (due === DAMAGED) return NEVER_MS;
  const inMs = Math.floor(due.dueAt - nodeNow);
  if (inMs <= 0) return inMs;
  return neverTried(due) ? 0 : Math.min(inMs, due.waitMs ?? LONGEST_MS);
}

/** How a due line is written: see `steps-sql.ts`. */
const [PLAIN, BORN, KEPT] = [0, 1, 2];
const [END, DROP, KEEP] = [0, 1, 2];

/** A column of step numbers, and those beside it. */
class Rows {
  readonly steps: number[] = [];
  readonly columns: (string | null)[][];
  constructor(width: number) {
    this.columns = Array.from({ length: width }, () => []);
  }
  push(step: number, ...values: readonly (string | null)[]): void {
    this.steps.push(step);
    for (const [i, value] of values.entries()) this.columns[i]?.push(value);
  }
  args(): readonly unknown[] {
    return [ints(this.steps), ...this.columns.map(texts)];
  }
}

/** A line that this node asks to lease at birth. */
export interface Birth {
  readonly step: number;
  readonly lease: Lease;
  readonly key: string;
}

interface BatchOptions {
  readonly id: string;
  readonly leaseMs: number;
  readonly nodeNow: number;
  /** Says whether this node takes a line of that subscription at birth. */
  readonly bears: (subscriptionId: string) => boolean;
}

export class Batch {
  readonly id: string;
  readonly steps: readonly Step[];
  readonly births: readonly Birth[];
  /** True when it writes lines that are due now and that this node does not take at birth. */
  readonly leaves: boolean;
  /** Set after a race: every condition is judged, so that a conflict has a name. */
  careful = false;
  readonly #options: BatchOptions;
  readonly #due: { readonly rows: Rows; readonly inMs: number[]; readonly how: number[] };

  constructor(steps: readonly Step[], options: BatchOptions) {
    this.id = options.id;
    this.steps = steps;
    this.#options = options;
    this.#due = { rows: new Rows(4), inMs: [], how: [] };
    const births: Birth[] = [];
    let leaves = false;
    for (const [i, { writes, fence }] of steps.entries())
      for (const [key, value] of writes) {
        if (value === null || !DUE.has(key)) continue;
        const due = DUE.read(value, key);
        const sub = due === DAMAGED ? (key.split(":")[1] ?? "") : due.subscriptionId;
        const inMs = dueIn(due, options.nodeNow);
        let [how, token]: [number, string | null] = [PLAIN, null];
        if (fence?.keep === key) [how, token] = [KEPT, fence.token];
        else if (inMs <= 0 && due !== DAMAGED && options.bears(sub)) {
          [how, token] = [BORN, `${options.id}.${births.length}`];
          births.push({ step: i, key, lease: { ...due, token } });
        } else if (inMs <= 0) leaves = true;
        this.#due.rows.push(i, key, sub, value, token);
        this.#due.inMs.push(inMs);
        this.#due.how.push(how);
      }
    this.births = births;
    this.leaves = leaves;
  }

  get bytes(): number {
    return this.steps.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  /** @param time the two arguments of the clock */
  values(time: readonly (number | null)[]): readonly unknown[] {
    const [fresh, written, dropped, wanted, absent] = [new Rows(2), new Rows(2), new Rows(1), new Rows(2), new Rows(1)];
    const [fences, drops, lines, lineWanted] = [new Rows(3), [] as number[], new Rows(1), new Rows(2)];
    const [fanned, numbers] = [new Rows(2), [] as number[]];
    for (const [i, { writes, conditions, fence, fanned: keyIds, epoch }] of this.steps.entries()) {
      const isNew = newKeys(writes, conditions);
      for (const [key, value] of writes) {
        if (DUE.has(key)) {
          if (value === null && key !== fence?.key) lines.push(i, key);
        } else if (value === null) dropped.push(i, key);
        else (isNew.has(key) ? fresh : written).push(i, key, value);
      }
      let fenced: string | null = null;
      for (const [key, text] of conditions) {
        if (key === fence?.key && text !== null) fenced = text;
        else if (DUE.has(key)) lineWanted.push(i, key, text);
        else if (text === null && !writes.has(key)) absent.push(i, key);
        else if (this.careful || !isNew.has(key)) wanted.push(i, key, text);
      }
      if (fence !== undefined) {
        fences.push(i, fence.key, fence.token, fenced);
        drops.push(writes.get(fence.key) === null ? DROP : fence.keep === undefined && fence.token !== "" ? END : KEEP);
      }
      for (const keyId of keyIds) {
        fanned.push(i, keyId, epoch.id);
        numbers.push(epoch.n);
      }
    }
    const [fannedSteps, fannedKeys, fannedIds] = fanned.args();
    const { rows, inMs, how } = this.#due;
    const [dueSteps, dueKeys, subs, values, tokens] = rows.args();
    const watched = this.steps.flatMap((step) => step.watched ?? []);
    const keyIds = watched.length === 0 ? null : texts([...new Set(watched.map(keyIdOf))]);
    return [
      ...time,
      this.id,
      this.#options.leaseMs,
      ...[fresh, written, dropped, wanted, absent].flatMap((one) => one.args()),
      ...[...fences.args(), ints(drops)],
      ...[...lines.args(), ...lineWanted.args()],
      ...[dueSteps, dueKeys, subs, values, longs(inMs), tokens, ints(how)],
      ...[fannedSteps, fannedKeys, longs(numbers), fannedIds],
      keyIds,
      watched.length === 0 ? null : JSON.stringify(watched),
    ];
  }
}

/** Keys that are written only if they are not there. */
function newKeys(
  writes: ReadonlyMap<string, string | null>,
  conditions: readonly (readonly [key: string, text: string | null])[],
): ReadonlySet<string> {
  const fresh = new Set<string>();
  for (const [key, text] of conditions) if (text === null && typeof writes.get(key) === "string") fresh.add(key);
  for (const [key, text] of conditions) if (text !== null) fresh.delete(key);
  return fresh;
}

/** Of a control key it is the word that it begins with: no key id is like that. */
const keyIdOf = (key: string): string =>
  SUBSCRIPTION.has(key) ? SUBSCRIPTION.id(key).keyId : key.split(":", 2).join(":");
