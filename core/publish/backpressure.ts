/** Refuses publishing while too many deliveries are pending or the storage is too slow. */
import { Problem } from "../model/problem.ts";
import type { Clock } from "../ports/clock.ts";
import type { Queue } from "../ports/storage.ts";

/** Publishing is refused while a commit has waited this long. */
const SLOW_COMMIT_MS = 2_000;
/** How old a reading of the backlog may be. Deliveries added since are counted on top. */
const LOOK_MS = 250;
const REOPEN_AT = 0.8;
const RETRY_AFTER_S = 2;

interface Commit {
  /** On the monotonic clock, ms. */
  readonly since: number;
}

export interface Backpressure {
  /** Reads the backlog again when the last reading is old. Never rejects. */
  look(): Promise<void> | undefined;
  /**
   * While publishing is refused, this reads the backlog again itself, so that publishing resumes although no event gets
   * in.
   * @throws Problem PROVIDER_BACKPRESSURE
   */
  admit(): void;
  /** Counts deliveries that were just added. */
  added(count: number): void;
  /** Marks the start of a commit. Returns what `ended` takes. */
  began(): Commit;
  ended(commit: Commit): void;
}

/**
 * @param maxPending 0: no limit
 * @param unwritten how many pending deliveries the queue does not hold yet
 */
export function createBackpressure(
  queue: Pick<Queue, "depth">,
  clock: Clock,
  maxPending: number,
  unwritten: () => Promise<number> = () => Promise.resolve(0),
): Backpressure {
  const commits = new Set<Commit>();
  let pending = 0;
  let lookedAt = Number.NEGATIVE_INFINITY;
  let looking: Promise<void> | undefined;
  let closed = false;

  function judge(): void {
    closed = closed ? pending > maxPending * REOPEN_AT : pending > maxPending;
  }

  async function read(): Promise<void> {
    try {
      const [{ waiting, leased }, more] = await Promise.all([queue.depth(), unwritten()]);
      pending = waiting + leased + more;
      judge();
    } catch {
      // Whether the storage can take anything, the commit itself will show.
    } finally {
      lookedAt = clock.monotonic();
      looking = undefined;
    }
  }

  function look(): Promise<void> | undefined {
    if (maxPending <= 0 || clock.monotonic() - lookedAt < LOOK_MS) return undefined;
    return (looking ??= read());
  }

  return {
    look,
    admit() {
      if (closed) {
        void look();
        throw new Problem("PROVIDER_BACKPRESSURE", "Too many deliveries are pending. Publish again later.", {
          retryAfter: RETRY_AFTER_S,
        });
      }
      const [oldest] = commits;
      if (oldest !== undefined && clock.monotonic() - oldest.since > SLOW_COMMIT_MS) {
        throw new Problem("PROVIDER_BACKPRESSURE", "The storage is slow. Publish again later.", {
          retryAfter: RETRY_AFTER_S,
        });
      }
    },
    added(count) {
      if (maxPending <= 0) return;
      pending += count;
      if (!closed) judge();
    },
    began() {
      const commit = { since: clock.monotonic() };
      commits.add(commit);
      return commit;
    },
    ended: (commit) => void commits.delete(commit),
  };
}
