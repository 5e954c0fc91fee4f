/** Commits in one script: conditions, writes and the due index, under an id that identifies a repeat. */
import { ConflictError, LeaseLostError, StorageError } from "../../../core/model/errors.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import type { Change } from "../../../core/ports/storage.ts";
import type { Channel } from "./channel.ts";
import type { Kind, StepReply, BatchCalls } from "./batch-calls.ts";

/** Ids of commits are remembered in sets, a new one after so many ms. Redis keeps each for 30 s: longer than a repeat takes. */
const SET_MS = 5_000;
/** The key that an outdated fan-out conflicts with. */
const SUBSCRIPTIONS = "subscription:";
const WATCHED = [SUBSCRIPTIONS, "control:"];

export interface Commits {
  /** Resolves when no commit is under way. */
  ended(): Promise<void>;
  commit(changes: readonly Change[]): Promise<void>;
  /** @param held subscription, ordinal, token, line to keep or empty, lease ms */
  settle(held: readonly (string | number)[], changes: readonly Change[]): Promise<void>;
  /**
   * @param line subscription, ordinal, line
   * @throws LeaseLostError when it is leased
   */
  withdraw(line: readonly string[], changes: readonly Change[]): Promise<void>;
}

export function commits(
  step: BatchCalls,
  clock: Pick<Clock, "monotonic">,
  node: string,
  channel: () => Channel,
): Commits {
  let made = 0;
  /** Commits that may have happened: repeated with the same list, they are not made twice. */
  const uncertain = new WeakMap<readonly Change[], Identity>();

  function identity(changes: readonly Change[]): Identity {
    // The first id of a set decides when Redis forgets the whole set. So a set holds ids of one node only, and its name is
    // made from monotonic time: neither another node's clock nor a step of this one's makes an id be forgotten too soon.
    const set = `${node}.${Math.floor(clock.monotonic() / SET_MS)}`;
    const known = changes.some(isNewEvent) ? channel().epoch : "";
    return { id: `${node}.${(++made).toString(36)}`, set, known };
  }

  async function run(kind: Kind, held: readonly (string | number)[], changes: readonly Change[]): Promise<void> {
    const own = uncertain.get(changes) ?? identity(changes);
    const watched = watchedKeys(changes);
    const message = watched.length === 0 ? "" : JSON.stringify(watched);
    const head = [own.id, own.set, message, ...(kind === "commit" ? [own.known] : held)];
    let reply: StepReply;
    try {
      reply = await step(kind, [...head, ...changes.flatMap(flatten)]);
    } catch (error) {
      if (error instanceof StorageError && error.fault === "uncertain") {
        uncertain.set(changes, own);
        // It may have happened: caches of these keys must be read again.
        if (watched.length > 0) channel().own(undefined, undefined, watched);
      }
      throw error;
    }
    if (reply.end === "lost") throw new LeaseLostError();
    if (reply.end === "outdated") {
      channel().atEpoch(reply.epoch);
      channel().checkRecords();
      throw new ConflictError([SUBSCRIPTIONS]);
    }
    if (reply.end === "conflict") throw new ConflictError(reply.keys);
    if (watched.length > 0) channel().own(reply.epoch, reply.before, watched);
  }

  const underWay = new Set<Promise<void>>();
  function track(work: Promise<void>): Promise<void> {
    underWay.add(work);
    const over = (): void => void underWay.delete(work);
    work.then(over, over);
    return work;
  }

  return {
    async ended() {
      await Promise.allSettled(underWay);
    },
    async commit(changes) {
      if (changes.length > 0) await track(run("commit", [], changes));
    },
    settle: (held, changes) => track(run("settle", held, changes)),
    withdraw: (line, changes) => track(run("withdraw", line, changes)),
  };
}

/** Identifies a commit when it is repeated. */
interface Identity {
  readonly id: string;
  /** The set in which Redis remembers it. */
  readonly set: string;
  /** The epoch known when its events were fanned out; empty when it has none. */
  readonly known: string;
}

/** An event that was fanned out by this node's cache of subscriptions. */
const isNewEvent = (change: Change): boolean =>
  change.op === "put" && change.if === null && change.key.startsWith("event:");

function watchedKeys(changes: readonly Change[]): readonly string[] {
  return changes
    .filter(({ op, key }) => op !== "check" && WATCHED.some((prefix) => key.startsWith(prefix)))
    .map(({ key }) => key);
}

function flatten(change: Change): readonly string[] {
  const value = change.op === "put" ? change.value : "";
  const kind = change.if === undefined ? "" : change.if === null ? "absent" : "is";
  return [change.op, change.key, value, kind, change.if ?? ""];
}
