/** Decides whether a publication may be stored now, by rules: space, backlogs, speed, the turn of its key. */
import { BoundedMap } from "../lib/bounded-map.ts";
import { seldom } from "../lib/seldom.ts";
import type { Due } from "../model/delivery.ts";
import { StorageError } from "../model/errors.ts";
import { Problem } from "../model/problem.ts";
import type { Clock } from "../ports/clock.ts";
import type { Metrics } from "../ports/plugin.ts";
import type { AcceptRequest } from "../ports/source.ts";
import type { Storage } from "../ports/storage.ts";
import { storageProblem } from "../records/commit-once.ts";
import { deliveriesOfLine, unwritten } from "../records/new-delivery.ts";
import { countWaiting } from "../records/sequence-rows.ts";
import type { Subscribers } from "./fanout.ts";
import { Backlog, LOOK_MS, RETRY_AFTER_S, roomOf, SLOW_MS, type RoomDeps, type Rule } from "./rules.ts";

export interface AdmissionDeps extends RoomDeps {
  readonly storage: Pick<Storage, "room" | "nodes" | "range" | "getMany"> & {
    readonly queue: Pick<Storage["queue"], "depth" | "pending">;
  };
  readonly subscriptionCache: Subscribers;
  readonly metrics: Pick<Metrics, "count">;
  /** Pending deliveries beyond which publishing is refused; 0: no limit. */
  readonly maxPending: number;
  /** The same for one API key, which alone is refused then. @default 0 */
  readonly maxPendingPerKey?: number;
}

/** How old the reading of a key's backlog may be, ms, where other nodes add to it. */
const SHARED_LOOK_MS = 1_000;
const KEY_LOOK_SHARE = 20;
/** Keys whose backlog is remembered. */
const KEYS = 10_000;
/** How long an early admission holds, ms: as long as the body of nearly every event takes. */
const ADMITTED_MS = 50;

export function createAdmission(deps: AdmissionDeps) {
  const { clock, metrics } = deps;
  const turns = new Turns(clock);
  const room = roomOf(deps);
  const { backlog, backlogOf } = backlogsOf(deps);
  const rules: readonly Rule[] = [room, backlog, turns].filter((rule) => rule !== undefined);
  /** The rules about what a body may still use up that was admitted before it was read. */
  const space = room === undefined ? [] : [room];

  /** Counts a refusal by its code. @returns what to throw */
  function refused(error: unknown): unknown {
    const problem = error instanceof StorageError ? storageProblem(error) : error;
    // Anything else is a fault of the relay, and the API answers it so.
    metrics.count("publish_refused", { code: problem instanceof Problem ? problem.code : "INTERNAL_ERROR" });
    return problem;
  }

  return {
    turns,
    refused,
    /**
     * Admits a request before its body is read.
     * @returns the moment, ms on the monotonic clock
     * @throws Problem PROVIDER_BACKPRESSURE or STORAGE_FULL while publishing is refused
     */
    admit(): number {
      for (const rule of rules) {
        void rule.look?.(0);
        if (rule.closed) throw refused(problemOf(rule));
      }
      return clock.monotonic();
    },
    /**
     * Admits a request whose body has been read. What `admit` has decided just before is not decided again, unless the
     * event itself may take the last space.
     * @param now ms on the monotonic clock
     * @throws Problem PROVIDER_BACKPRESSURE or STORAGE_FULL while publishing is refused, now or by a rejection
     */
    pass(request: AcceptRequest, now: number): Promise<void> | undefined {
      const early = request.admittedAt !== undefined && now - request.admittedAt < ADMITTED_MS;
      return judge(early ? space : rules, charsOf(request), early);
    },
    /**
     * Waits for the turn of the first of the keys; a batch takes one turn. Give it back by `turns.leave`.
     * @throws Problem PROVIDER_BACKPRESSURE while one of the keys has to wait
     */
    async enter(request: AcceptRequest, keys: readonly string[]): Promise<Turn> {
      if (backlogOf !== undefined) await judge(Array.from(new Set(keys), backlogOf), 0);
      const weight = Math.max(keys.length, Math.ceil(charsOf(request) / EVENT_CHARS));
      const turn: Turn = { keyId: keys[0] as string, weight, since: 0 };
      const entering = turns.enter(turn);
      if (entering !== undefined) await entering;
      return turn;
    },
    /** Returns the rule that refuses all publications now. It reads the storage again, as nobody may be publishing. Never rejects. */
    async refusing(): Promise<Pick<Rule, "code" | "detail"> | undefined> {
      const looks = rules.flatMap((rule) => rule.look?.(0) ?? []);
      if (!rules.some(({ closed }) => closed)) await Promise.all(looks);
      return rules.find(({ closed }) => closed);
    },
    /** Counts deliveries that were just added. */
    added(dues: readonly Due[]): void {
      if (backlog === undefined && backlogOf === undefined) return;
      for (const due of dues) {
        const count = deliveriesOfLine(due);
        backlog?.added(count);
        backlogOf?.(due.keyId).added(count);
      }
    },
  };
}

/** Makes the backlogs that are limited: that of all, and those of API keys by key id, each of which is refused alone. */
function backlogsOf({ storage, subscriptionCache, clock, maxPending, maxPendingPerKey: most = 0 }: AdmissionDeps) {
  const { queue, nodes } = storage;
  const waitingInAll = seldom(() => countWaiting(storage), clock);
  const all = new Backlog(clock, {
    most: maxPending,
    detail: "Too many deliveries are pending. Publish again later.",
    staleMs: LOOK_MS,
    share: 0,
    async count() {
      const counts = [queue.depth(), unwritten(storage), waitingInAll()] as const;
      const [{ waiting, leased }, wide, ordered] = await Promise.all(counts);
      return waiting + leased + wide + ordered;
    },
  });
  const known = new BoundedMap<Backlog>(KEYS, ({ reading }) => reading === undefined);
  const make = (keyId: string): Backlog =>
    new Backlog(clock, {
      most,
      detail: `Too many deliveries of API key ${keyId} are pending. Publish again later.`,
      // Alone, a node knows what is added.
      staleMs: nodes === undefined ? Number.POSITIVE_INFINITY : SHARED_LOOK_MS,
      share: KEY_LOOK_SHARE,
      async count() {
        const subscriptions = await subscriptionCache.of(keyId);
        const queued = await queue.pending(subscriptions.map(({ id }) => id));
        return queued + (await unwritten(storage, keyId)) + (await countWaiting(storage, keyId));
      },
    });
  return {
    backlog: maxPending > 0 ? all : undefined,
    backlogOf: most > 0 ? (keyId: string) => known.get(keyId) ?? known.add(keyId, make(keyId)) : undefined,
  };
}

const problemOf = ({ code, detail, retryAfter }: Omit<Rule, "closed">): Problem =>
  new Problem(code, detail, { retryAfter });

/** @param admitted whether these rules have let it pass already, so that only a new reading can refuse it */
function judge(rules: readonly Rule[], chars: number, admitted = false): Promise<void> | undefined {
  let looks: Promise<void>[] | undefined;
  for (const rule of rules) {
    const look = rule.look?.(chars);
    if (look !== undefined) (looks ??= []).push(look);
  }
  if (looks !== undefined) return Promise.all(looks).then(() => refuse(rules));
  if (!admitted) refuse(rules);
  return undefined;
}

function refuse(rules: readonly Rule[]): void {
  for (const rule of rules) if (rule.closed) throw problemOf(rule);
}

const charsOf = ({ publications }: AcceptRequest): number =>
  publications.length === 1
    ? (publications[0]?.text.length ?? 0)
    : publications.reduce((sum, { text }) => sum + text.length, 0);

/** A request on its way to the storage. */
export interface Turn {
  readonly keyId: string;
  /** How many events it counts as. */
  readonly weight: number;
  /** When its commit began, or its wait for the turn, monotonic ms. */
  since: number;
  /** Ends its turn among publications in order; absent until it has one. */
  endOrder?: () => void;
}

/** Most events under way at once; an event of more than `EVENT_CHARS` counts as several. A single request may be larger. */
const UNDER_WAY = 2_000;
const EVENT_CHARS = 4_096;

/**
 * Gives API keys turns at the storage: bounds what is being stored at once, and serves waiting keys in turn. The
 * storage commits in order of arrival, so without turns the large batches of one key would delay every other key. As a
 * rule it refuses everybody while the storage is slow.
 */
class Turns implements Rule {
  readonly code = "PROVIDER_BACKPRESSURE";
  readonly detail = "The storage is slow. Publish again later.";
  readonly retryAfter = RETRY_AFTER_S;
  readonly #clock: Pick<Clock, "monotonic">;
  /** Waiting requests by key, in the order of service. Has no empty lists. */
  readonly #lines = new Map<string, { readonly turn: Turn; readonly go: () => void }[]>();
  /** Commits under way, the oldest first. */
  readonly #commits = new Set<Turn>();
  #underWay = 0;

  constructor(clock: Pick<Clock, "monotonic">) {
    this.#clock = clock;
  }

  get closed(): boolean {
    const [oldest] = this.#commits;
    return oldest !== undefined && this.#clock.monotonic() - oldest.since > SLOW_MS;
  }

  /**
   * Resolves at the key's turn; returns no promise when there is no wait.
   * @throws Problem PROVIDER_BACKPRESSURE while the key has waited too long
   */
  enter(turn: Turn): Promise<void> | undefined {
    const { keyId, weight } = turn;
    if (this.#lines.size === 0 && this.#underWay + weight <= UNDER_WAY) {
      this.#underWay += weight;
      return undefined;
    }
    const first = this.#lines.get(keyId)?.[0];
    if (first === undefined || this.#clock.monotonic() - first.turn.since <= SLOW_MS) return this.#wait(turn);
    const detail = "Too much is being published on this API key. Publish again later.";
    throw problemOf({ code: this.code, detail, retryAfter: RETRY_AFTER_S });
  }

  #wait(turn: Turn): Promise<void> {
    turn.since = this.#clock.monotonic();
    return new Promise((go) => {
      const line = this.#lines.get(turn.keyId) ?? [];
      if (line.length === 0) this.#lines.set(turn.keyId, line);
      line.push({ turn, go });
      // It may be the only one that fits, or larger than all that goes at once while nothing does.
      this.#serve();
    });
  }

  /** Marks the start of a commit. */
  began(turn: Turn): void {
    this.#commits.delete(turn);
    turn.since = this.#clock.monotonic();
    this.#commits.add(turn);
  }

  /** Frees the room of a request that is stored or has failed. */
  leave(turn: Turn): void {
    this.#commits.delete(turn);
    this.#underWay -= turn.weight;
    if (this.#lines.size > 0) this.#serve();
  }

  /** Waits for something else without the room that `enter` gave, and takes room again in the key's turn. */
  async aside(turn: Turn, wait: Promise<void>): Promise<void> {
    this.leave(turn);
    try {
      await wait;
    } finally {
      await this.#wait(turn);
    }
  }

  #serve(): void {
    for (const [keyId, line] of this.#lines) {
      const { turn, go } = line[0] as (typeof line)[number];
      if (this.#underWay > 0 && this.#underWay + turn.weight > UNDER_WAY) return;
      line.shift();
      this.#lines.delete(keyId);
      if (line.length > 0) this.#lines.set(keyId, line);
      this.#underWay += turn.weight;
      go();
    }
  }
}
