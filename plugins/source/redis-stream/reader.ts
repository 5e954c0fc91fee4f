/** Reads a stream on one connection, which waits for entries, and acknowledges on another. */
import type { ConnectionOptions as TlsOptions } from "node:tls";
import type { Redis } from "ioredis";
import type { Clock } from "../../../core/ports/clock.ts";
import { redisClient } from "../../brokers/redis.ts";
import type { Intake } from "../messages/intake.ts";
import type { Settled } from "../messages/message.ts";
import { claimReply, entriesOf, readReply, type Entries, type StreamEntry } from "./entries.ts";

/** The options of the source, with their defaults. */
export interface StreamOptions {
  readonly url: string;
  readonly stream: string;
  readonly group: string;
  readonly consumer: string;
  readonly dead: string;
  readonly claimAfterMs: number;
  readonly tls?: TlsOptions | undefined;
}

interface StreamReader {
  /** Reads until the signal aborts. @throws Error when Redis fails */
  session(intake: Intake<StreamEntry>, signal: AbortSignal, connected: () => void): Promise<void>;
  /** Acknowledges what is stored, and moves poison to the dead stream. @throws Error when Redis fails */
  settle(settled: readonly Settled<StreamEntry>[]): Promise<void>;
  /** Closes the connections. */
  close(): void;
}

/** Entries of one reply. */
const PAGE = 500;
/** Longest that a read waits for an entry, ms. */
const BLOCK_MS = 5_000;
const ANSWER_MS = 10_000;

export function createStreamReader(options: StreamOptions, clock: Clock): StreamReader {
  const { url, tls, stream, group, consumer, dead, claimAfterMs } = options;
  let writer: Redis | undefined;
  /** What a connection has reported; its commands say no more than that it is closed. */
  let fault: unknown;
  /** Ids that were offered and not settled, so that a claim does not take them from ourselves. */
  const held = new Set<string>();

  // A server that is gone without a word: a read answers after BLOCK_MS at the latest.
  const client = (): Redis => redisClient(url, tls, BLOCK_MS + ANSWER_MS, (error) => (fault = error));

  async function session(intake: Intake<StreamEntry>, signal: AbortSignal, connected: () => void): Promise<void> {
    fault = undefined;
    const [reading, writing] = [client(), client()];
    const close = (): void => reading.disconnect();
    signal.addEventListener("abort", close, { once: true });
    // Without it nothing can be acknowledged, so nothing more is read.
    writing.once("end", close);
    try {
      await Promise.all([reading.connect(), writing.connect()]);
      // A client whose database is not there goes on in database 0, and only reports that.
      if (fault !== undefined) throw new Error("the connection is not as it should be");
      writer = writing;
      await makeGroup(writing);
      connected();
      await readAll(reading, intake, signal);
    } catch (error) {
      // While the source stops, what is under way is still acknowledged: by the connection that `close` knows, and no other.
      if (!signal.aborted || writer !== writing) writing.disconnect();
      throw fault ?? error;
    } finally {
      signal.removeEventListener("abort", close);
      close();
    }
  }

  async function makeGroup(writing: Redis): Promise<void> {
    try {
      await writing.xgroup("CREATE", stream, group, "0", "MKSTREAM");
    } catch (error) {
      if (!String((error as Error).message).startsWith("BUSYGROUP")) throw error;
    }
  }

  async function readAll(reading: Redis, intake: Intake<StreamEntry>, signal: AbortSignal): Promise<void> {
    // First what an earlier run of this consumer left, then what others have left, then what is new.
    let own: string | undefined = "0";
    let claimed = "0-0";
    let claimAt = 0;
    while (!signal.aborted) {
      const room = Math.min(PAGE, await intake.room());
      if (room === 0) return;
      if (own !== undefined) {
        const left = entriesOf(stream, await read(reading, room, own), true);
        await take(left, intake);
        own = left.last;
      } else if (clock.monotonic() >= claimAt) {
        const { next, claimed: found } = claimReply(
          await reading.callBuffer("XAUTOCLAIM", stream, group, consumer, claimAfterMs, claimed, "COUNT", room),
        );
        await take(entriesOf(stream, found, true), intake);
        claimed = next;
        if (next === "0-0") claimAt = clock.monotonic() + claimAfterMs / 2;
      } else {
        await take(entriesOf(stream, await read(reading, room, ">"), false), intake);
      }
    }
  }

  const read = async (reading: Redis, count: number, from: string): Promise<ReturnType<typeof readReply>> => {
    const waitMs = Math.min(BLOCK_MS, claimAfterMs / 2);
    const block = from === ">" ? ["BLOCK", waitMs] : [];
    const args = ["GROUP", group, consumer, "COUNT", count, ...block, "STREAMS", stream, from];
    return readReply(await reading.callBuffer("XREADGROUP", ...args));
  };

  async function take({ entries, gone }: Entries, intake: Intake<StreamEntry>): Promise<void> {
    if (gone.length > 0) await writer?.xack(stream, group, ...gone);
    const fresh = entries.filter(({ entryId }) => !held.has(entryId));
    for (const { entryId } of fresh) held.add(entryId);
    if (fresh.length > 0) intake.offer(fresh);
  }

  async function settle(settled: readonly Settled<StreamEntry>[]): Promise<void> {
    const stored = settled.filter(({ fate }) => fate.kind === "stored").map(({ message }) => message.entryId);
    try {
      if (stored.length > 0) await acknowledging().xack(stream, group, ...stored);
      for (const one of settled) if (one.fate.kind === "poison") await setAside(one);
    } finally {
      // One that is not acknowledged stays pending: the next session reads it again.
      for (const { message } of settled) held.delete(message.entryId);
    }
  }

  /** Moves an entry to the dead stream, with all its fields, the reason, and where it stood. */
  async function setAside({ message: { entryId, fields }, fate }: Settled<StreamEntry>): Promise<void> {
    if (fate.kind !== "poison") return;
    const about = ["relay-code", fate.code, "relay-reason", fate.detail, "relay-entry", entryId];
    // Not in one MULTI, which runs the second command also when the first one fails. A crash between them repeats both.
    await acknowledging().xadd(dead, "*", ...fields, ...about);
    await acknowledging().xack(stream, group, entryId);
  }

  function acknowledging(): Redis {
    if (writer === undefined) throw new Error("no connection to Redis");
    return writer;
  }

  return { session, settle, close: () => writer?.disconnect() };
}
