/** What a publication passes before it is stored: room, backlog, a storage that keeps up, and the turn of its key. */
import type { Due } from "../model/delivery.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/plugin.ts";
import type { AcceptRequest } from "../ports/source.ts";
import type { Storage } from "../ports/storage.ts";
import { deliveriesOfLine, unwritten } from "../records/new-delivery.ts";
import type { Subscribers } from "./fanout.ts";
import { createKeyBackpressure } from "./key-backpressure.ts";
import { createBackpressure, type Backpressure } from "./backpressure.ts";
import { createStorageHeadroom } from "./storage-room.ts";
import { createCommitTurns, weightOf } from "./commit-turns.ts";

export interface AdmissionDeps {
  readonly storage: Pick<Storage, "room" | "nodes" | "range"> & {
    readonly queue: Pick<Storage["queue"], "depth" | "pending">;
  };
  readonly directory: Subscribers;
  readonly clock: Clock;
  /** Deliveries pending beyond which publishing is refused; 0: no limit. */
  readonly maxPending: number;
  /** The same of one API key, for that key alone. @default 0 */
  readonly maxPendingPerKey?: number;
  /** Bytes of the storage that are kept free for what was accepted; see `createStorageRoom`. */
  readonly reserveBytes?: number;
  readonly log: Log;
}

export interface Admission extends Pick<Backpressure, "began" | "ended"> {
  /** Looks at what may be out of date, for a request or for none. Never rejects. */
  look(request?: AcceptRequest): Promise<unknown> | undefined;
  /** @throws Problem PROVIDER_BACKPRESSURE or STORAGE_FULL while nothing is to be published */
  admit(): void;
  /**
   * Waits until the first of the keys has its turn; a batch takes one. Returns what is to be called when it is stored or
   * never will be. @throws Problem PROVIDER_BACKPRESSURE while one of the keys is to wait
   */
  enter(request: AcceptRequest, keys: readonly string[]): Promise<() => void>;
  /** Counts deliveries that were just added. */
  added(dues: readonly Due[]): void;
}

export function createAdmission(deps: AdmissionDeps): Admission {
  const { storage, directory, clock, maxPendingPerKey: most = 0 } = deps;
  const { queue, nodes } = storage;
  const room = createStorageHeadroom(deps);
  const pressure = createBackpressure(queue, clock, deps.maxPending, () => unwritten(storage));
  const turns = createCommitTurns(clock);
  const ofKeys =
    most > 0
      ? createKeyBackpressure({
          queue,
          directory,
          clock,
          most,
          shared: nodes !== undefined,
          unwritten: (keyId) => unwritten(storage, keyId),
        })
      : undefined;

  return {
    began: pressure.began,
    ended: pressure.ended,
    look(request) {
      const [one, other] = [pressure.look(), room.look(request === undefined ? 0 : sizeOf(request))];
      return one !== undefined && other !== undefined ? Promise.all([one, other]) : (one ?? other);
    },
    admit() {
      room.admit();
      pressure.admit();
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
    added(dues) {
      for (const due of dues) {
        const count = deliveriesOfLine(due);
        pressure.added(count);
        ofKeys?.added(due.keyId, count);
      }
    },
  };
}

const sizeOf = ({ publications }: AcceptRequest): number =>
  publications.length === 1
    ? (publications[0]?.text.length ?? 0)
    : publications.reduce((sum, { text }) => sum + text.length, 0);
