/**
 * Shares the workers of transforms among the subscriptions: whose turn is next, and who has to come back later. Pure.
 *
 * Each subscription pays for the time that its runs take, and the one that has paid least is next. Slow ones never hold
 * all workers, so that a quick one waits for quick ones alone.
 */
import { BoundedMap } from "../../lib/bounded-map.ts";

/** A subscription whose runs take longer than this on average, ms, is slow; so is a run that has taken longer. */
const SLOW_MS = 50;
/** One run counts for at most this, ms. */
const MOST_MS = 3_000;
/** The least that a run costs, ms. */
const LEAST_MS = 0.1;
/** Subscriptions whose speed is remembered. */
const HELD = 10_000;
/** Most jobs of one slow subscription, waiting and running. */
const SLOW_JOBS = 2;
/** How long a subscription that has to come back later waits, ms. */
const SHORT_WAIT_MS = 100;
const LONG_WAIT_MS = 10_000;

interface Client<Job> {
  readonly name: string;
  /** Moving average of its runs, ms; below 0: none yet. */
  average: number;
  /** Time that it has paid for, in the same units as `#now`. */
  paid: number;
  running: number;
  readonly waiting: Job[];
}

export interface TransformTurn<Job> {
  readonly job: Job;
  readonly client: Client<Job>;
  /** Monotonic. */
  readonly began: number;
  /** Paid for it in advance, ms. */
  readonly advance: number;
}

export class Turns<Job> {
  readonly #workers: number;
  readonly #capacity: number;
  readonly #clients = new BoundedMap<Client<Job>>(HELD, (one) => one.running + one.waiting.length === 0);
  readonly #waiting = new Set<Client<Job>>();
  readonly #running = new Set<TransformTurn<Job>>();
  /** Moving average by transform: what is expected of a subscription that has not run yet. Its names are few. */
  readonly #names = new Map<string, number>();
  #total = 0;
  /** Paid by the subscription that ran last: one that was idle for long starts from here. */
  #now = 0;

  /** @param capacity jobs that may wait, beside one of each subscription that has none */
  constructor(workers: number, capacity: number) {
    this.#workers = workers;
    this.#capacity = capacity;
  }

  /** Lets a job wait for its turn. @returns how long its subscription has to stay away instead, ms; `undefined`: it waits */
  join(subscriptionId: string, name: string, job: Job): number | undefined {
    const id = `${subscriptionId} ${name}`;
    const client =
      this.#clients.get(id) ?? this.#clients.add(id, { name, average: -1, paid: 0, running: 0, waiting: [] });
    const own = client.running + client.waiting.length;
    if (this.#isSlow(client)) {
      const ahead = this.#count((one) => this.#isSlow(one));
      if (own >= SLOW_JOBS || ahead >= this.#capacity / 2) return this.#slowWait(client, ahead);
    } else if (this.#total >= (own === 0 ? 2 * this.#capacity : this.#capacity)) return SHORT_WAIT_MS;
    if (own === 0) client.paid = Math.max(client.paid, this.#now);
    client.waiting.push(job);
    this.#waiting.add(client);
    this.#total++;
    return undefined;
  }

  /** Takes back a job that waits. @returns whether it still waited */
  leave(job: Job): boolean {
    for (const client of this.#waiting) {
      const at = client.waiting.indexOf(job);
      if (at < 0) continue;
      client.waiting.splice(at, 1);
      this.#total--;
      if (client.waiting.length === 0) this.#waiting.delete(client);
      return true;
    }
    return false;
  }

  /** Takes back all jobs that wait. */
  drain(): readonly Job[] {
    const all = [...this.#waiting].flatMap((client) => client.waiting.splice(0));
    this.#waiting.clear();
    this.#total = 0;
    return all;
  }

  /** Returns the job that runs next; `undefined` when none waits, or no worker is free for those that do. */
  next(now: number): TransformTurn<Job> | undefined {
    if (this.#running.size >= this.#workers) return undefined;
    let slow = 0;
    for (const { client, began } of this.#running) if (now - began >= SLOW_MS || this.#isSlow(client)) slow++;
    const full = slow >= Math.max(1, this.#workers - 1);
    let first: Client<Job> | undefined;
    for (const client of this.#waiting) {
      if (full && this.#isSlow(client)) continue;
      if (first === undefined || client.paid < first.paid) first = client;
    }
    if (first === undefined) return undefined;
    // Paid in advance, so that its other jobs do not all run before this one ends.
    const advance = Math.max(LEAST_MS, this.#expected(first));
    const turn = { job: first.waiting.shift() as Job, client: first, began: now, advance };
    if (first.waiting.length === 0) this.#waiting.delete(first);
    this.#total--;
    first.running++;
    this.#now = Math.max(this.#now, first.paid);
    first.paid += advance;
    this.#running.add(turn);
    return turn;
  }

  /** Notes that a run is over. @param ms what it has cost */
  ended(turn: TransformTurn<Job>, ms: number): void {
    const { client } = turn;
    this.#running.delete(turn);
    client.running--;
    client.paid += Math.max(LEAST_MS, ms) - turn.advance;
    client.average = averageWith(client.average, ms);
    this.#names.set(client.name, averageWith(this.#names.get(client.name) ?? -1, ms));
  }

  #expected({ average, name }: Client<Job>): number {
    return average >= 0 ? average : (this.#names.get(name) ?? 0);
  }

  #isSlow(client: Client<Job>): boolean {
    return this.#expected(client) >= SLOW_MS;
  }

  #count(of: (client: Client<Job>) => boolean): number {
    let count = 0;
    for (const client of this.#waiting) if (of(client)) count += client.waiting.length;
    return count;
  }

  #slowWait(client: Client<Job>, ahead: number): number {
    const ms = (this.#expected(client) * (ahead + 1)) / Math.max(1, this.#workers - 1);
    return Math.min(LONG_WAIT_MS, Math.max(SHORT_WAIT_MS, ms));
  }
}

/** One long run makes nobody slow who was quick, because the machine itself may have stood still; three in a row do. */
function averageWith(average: number, ms: number): number {
  const sample = Math.min(ms, average >= 0 && average < SLOW_MS ? 2 * SLOW_MS : MOST_MS);
  return average < 0 ? sample : average + (sample - average) / 4;
}
