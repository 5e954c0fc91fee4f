/** A source that keeps one session with its broker: what all sources of another system share. */
import { every } from "../../../core/lib/every.ts";
import { endsWithin, unlessAborted } from "../../../core/lib/within.ts";
import { keepConnected } from "../../brokers/keep-connected.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import type { Source } from "../../../core/ports/source.ts";
import type { Backlog, Intake } from "./intake.ts";
import type { RawMessage } from "./message.ts";

/** The life of one session within that of its source. */
export interface SessionLife {
  /** Aborts when the source stops: no more messages are fetched. */
  readonly stopping: AbortSignal;
  /** Resolves after that, when every message in flight is settled: only then the connection may close. */
  readonly settled: Promise<void>;
  /** Aborts when the session has ended. */
  readonly over: AbortSignal;
  /** Aborts with the first of both. */
  readonly ending: AbortSignal;
  /** Call it once messages can come. */
  readonly connected: () => void;
}

/** Works until the source stops or the broker fails. It leaves nothing open. */
type Session = (life: SessionLife) => Promise<void>;

/** Parts of a source beside its sessions. */
interface BesideSessions {
  /** Says what else is wrong, for `/readyz`; `undefined`: nothing. */
  readonly readiness?: () => string | undefined;
  /** Closes what the sessions share, once they are over. */
  readonly close?: () => Promise<void> | void;
}

/** A stop waits so long for the session to end once everything is settled, ms. */
const ENDS_MS = 8_000;

export function connectedSource<Message extends RawMessage>(
  intake: Intake<Message>,
  clock: Clock,
  session: Session,
  { readiness, close }: BesideSessions = {},
): Source {
  const settled = Promise.withResolvers<void>();
  let running: Promise<void> | undefined;

  async function runOnce(stopping: AbortSignal, connected: () => void): Promise<void> {
    const over = new AbortController();
    const ending = AbortSignal.any([over.signal, stopping]);
    try {
      await session({ stopping, settled: settled.promise, over: over.signal, ending, connected });
    } finally {
      over.abort();
    }
  }

  return {
    start(accept) {
      if (running !== undefined || intake.stopping.aborted) return;
      intake.start(accept);
      const keeper = { stopping: intake.stopping, away: (reason?: string) => intake.away(reason) };
      running = keepConnected(keeper, clock, runOnce);
    },
    async stop() {
      await intake.stop();
      settled.resolve();
      // A broker that does not answer may hold a session for as long as its own limits; the process ends without it.
      if (running !== undefined) await endsWithin(clock, ENDS_MS, running);
      await close?.();
    },
    readiness: () => intake.readiness() ?? readiness?.(),
  };
}

const EVERY_MS = 15_000;

/** Reads how many messages wait upstream, now and every 15 s. A reading that fails is left out. */
export async function watchBacklog(
  clock: Clock,
  intake: { backlog(waiting: Backlog): void },
  over: AbortSignal,
  read: () => Promise<Backlog | undefined>,
): Promise<void> {
  async function measure(): Promise<void> {
    // A broker that does not answer must not hold up a stop.
    const waiting = await unlessAborted(
      over,
      read().catch(() => undefined),
    );
    if (waiting !== undefined && !over.aborted) intake.backlog(waiting);
  }
  await measure();
  await every(clock, EVERY_MS, measure, over);
}

/**
 * Settles the messages of each connection by themselves: what came on one that is lost cannot be settled and comes again.
 * Those of a live one must be settled all the same, since its broker sends no more until they are.
 * @throws what the first of them threw that could not
 */
export async function byConnection<Message extends RawMessage, Connection>(
  messages: readonly Message[],
  connectionOf: (message: Message) => Connection,
  settle: (connection: Connection, own: readonly Message[]) => Promise<void> | void,
): Promise<void> {
  const groups = [...Map.groupBy(messages, connectionOf)];
  const outcomes = await Promise.allSettled(groups.map(async ([connection, own]) => settle(connection, own)));
  const failed = outcomes.find((outcome) => outcome.status === "rejected");
  if (failed !== undefined) throw failed.reason;
}
