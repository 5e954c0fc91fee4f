/** Decides whether a publication may be stored now: space, backlog, speed of the storage, and the turn of its key. */
import type { Due } from "../model/delivery.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/plugin.ts";
import type { AcceptRequest } from "../ports/source.ts";
import type { Storage } from "../ports/storage.ts";
import { seldom } from "../lib/seldom.ts";
import { deliveriesOfLine, unwritten } from "../records/new-delivery.ts";
import { countWaiting } from "../records/sequence-rows.ts";
import type { Subscribers } from "./fanout.ts";
import { createKeyBackpressure } from "./key-backpressure.ts";
import { createBackpressure, type Backpressure } from "./backpressure.ts";
import { createStorageHeadroom } from "./storage-room.ts";
import { createCommitTurns, weightOf } from "./commit-turns.ts";

export interface AdmissionDeps {
  readonly storage: Pick<Storage, "room" | "nodes" | "range" | "getMany"> & {
    readonly queue: Pick<Storage["queue"], "depth" | "pending">;
  };
  readonly subscriptionCache: Subscribers;
  readonly clock: Clock;
  /** Pending deliveries beyond which publishing is refused; 0: no limit. */
  readonly maxPending: number;
  /** The same for one API key, which alone is refused then. @default 0 */
  readonly maxPendingPerKey?: number;
  /** Bytes of storage kept free for accepted events; see `createStorageHeadroom`. */
  readonly reserveBytes?: number;
  readonly log: Log;
}

interface Admission extends Pick<Backpressure, "began" | "ended"> {
  /**
   * Admits a request before its body is read.
   * @returns the moment, ms on the monotonic clock
   * @throws Problem PROVIDER_BACKPRESSURE or STORAGE_FULL while publishing is refused
   */
  admit(): number;
  /**
   * Admits a request whose body has been read. What `admit` has decided just before is not decided again, unless the
   * event itself may take the last space.
   * @param now ms on the monotonic clock
   * @throws Problem PROVIDER_BACKPRESSURE or STORAGE_FULL while publishing is refused, now or by a rejection
   */
  pass(request: AcceptRequest, now: number): Promise<void> | undefined;
  /**
   * Waits for the turn of the first of the keys; a batch takes one turn. Returns a function to call once it is stored
   * or has failed. @throws Problem PROVIDER_BACKPRESSURE while one of the keys has to wait
   */
  enter(request: AcceptRequest, keys: readonly string[]): Promise<() => void>;
  /** Waits for something else without the room that `enter` gave, and takes room again in the key's turn. */
  aside(request: AcceptRequest, keys: readonly string[], wait: Promise<void>): Promise<void>;
  /** Counts deliveries that were just added. */
  added(dues: readonly Due[]): void;
}

export function createAdmission(deps: AdmissionDeps): Admission {
  const { storage, subscriptionCache, clock, maxPendingPerKey: most = 0 } = deps;
  const { queue, nodes } = storage;
  const room = createStorageHeadroom(deps);
  const ofAll = seldom(() => countWaiting(storage), clock);
  const unqueued = async (waiting: Promise<number>, keyId?: string): Promise<number> =>
    (await unwritten(storage, keyId)) + (await waiting);
  const backpressure = createBackpressure(queue, clock, deps.maxPending, () => unqueued(ofAll()));
  const turns = createCommitTurns(clock);
  const ofKeys =
    most > 0
      ? createKeyBackpressure({
          queue,
          subscriptionCache,
          clock,
          most,
          shared: nodes !== undefined,
          unwritten: (keyId) => unqueued(countWaiting(storage, keyId), keyId),
        })
      : undefined;

  return {
    began: backpressure.began,
    ended: backpressure.ended,
    admit() {
      room.admit();
      void backpressure.look();
      backpressure.admit();
      return clock.monotonic();
    },
    pass(request, now) {
      const admitted = request.admittedAt !== undefined && now - request.admittedAt < ADMITTED_MS;
      const measuring = room.look(sizeOf(request));
      if (admitted) return measuring?.then(room.admit);
      const looking = backpressure.look();
      const admit = (): void => {
        room.admit();
        backpressure.admit();
      };
      if (looking !== undefined || measuring !== undefined) return Promise.all([looking, measuring]).then(admit);
      admit();
      return undefined;
    },
    async enter(request, keys) {
      if (ofKeys !== undefined) {
        const each = new Set(keys);
        await ofKeys.look(each);
        ofKeys.admit(each);
      }
      const keyId = keys[0] as string;
      const weight = weightOf(keys.length, sizeOf(request));
      turns.admit(keyId);
      const entering = turns.enter(keyId, weight);
      if (entering !== undefined) await entering;
      return () => turns.leave(weight);
    },
    async aside(request, keys, wait) {
      const weight = weightOf(keys.length, sizeOf(request));
      turns.leave(weight);
      try {
        await wait;
      } finally {
        const entering = turns.enter(keys[0] as string, weight);
        if (entering !== undefined) await entering;
      }
    },
    added(dues) {
      for (const due of dues) {
        const count = deliveriesOfLine(due);
        backpressure.added(count);
        ofKeys?.added(due.keyId, count);
      }
    },
  };
}

/** How long an early admission holds, ms: as long as the body of nearly every event takes. */
const ADMITTED_MS = 50;

const sizeOf = ({ publications }: AcceptRequest): number =>
  publications.length === 1
    ? (publications[0]?.text.length ?? 0)
    : publications.reduce((sum, { text }) => sum + text.length, 0);
