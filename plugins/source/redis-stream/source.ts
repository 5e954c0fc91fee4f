/** The source behind `fromRedisStream()`. It waits on one connection and acknowledges on another. */
import type { ConnectionOptions as TlsOptions } from "node:tls";
import { hostname } from "node:os";
import type { Redis } from "ioredis";
import type { SecretOption } from "../../../core/model/secret-option.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import type { PluginContext } from "../../../core/ports/plugin.ts";
import type { Source } from "../../../core/ports/source.ts";
import { redisClient } from "../../brokers/redis.ts";
import { connectedSource, watchBacklog, type SessionLife } from "../messages/connected.ts";
import { Intake, type Backlog, type Upstream } from "../messages/intake.ts";
import type { MessageOptions, Poison, RawMessage, Reading } from "../messages/message.ts";

export interface FromRedisStreamOptions extends MessageOptions {
  /** `redis://user:password@host:port/db`, `rediss://` for TLS. */
  readonly url: SecretOption;
  /** The key of the stream. */
  readonly stream: string;
  /** The consumer group. A missing one is made, with all that is in the stream. @default "relay" */
  readonly group?: string;
  /** This node's name in the group, which no other node has. @default the host's name */
  readonly consumer?: string;
  /** Takes messages without a valid event. @default the stream's key and `:dead` */
  readonly dead?: string;
  /** Takes over entries that another consumer has left for this long, ms. @default 30_000 */
  readonly claimAfterMs?: number;
  /** Most entries that were read and not acknowledged. @default 2_000 */
  readonly maxInFlight?: number;
  /** Passed to `tls.connect` for `rediss:`: `ca`, `cert`, `key`, `servername`. */
  readonly tls?: TlsOptions;
}

/** The options of the source, with their defaults. */
type StreamOptions = Required<Omit<FromRedisStreamOptions, keyof MessageOptions | "maxInFlight" | "tls">> & {
  readonly url: string;
  readonly tls: TlsOptions | undefined;
};

/** Entries of one reply. */
const PAGE = 500;
/** Longest that a read waits for an entry, ms. */
const BLOCK_MS = 5_000;
const ANSWER_MS = 10_000;

/** @param url where Redis is: the option, read and checked */
export function startRedisStream(ctx: PluginContext, options: FromRedisStreamOptions & Reading, url: string): Source {
  const { stream, group = "relay", consumer = hostname(), dead = `${stream}:dead`, claimAfterMs = 30_000 } = options;
  const { tls, maxInFlight = 2_000 } = options;
  const reader = new StreamReader({ url, stream, group, consumer, dead, claimAfterMs, tls }, ctx.clock);
  const intake = new Intake(ctx, { reading: options, maxInFlight, upstream: reader });
  return connectedSource(intake, ctx.clock, (life) => reader.session(intake, life), { close: () => reader.close() });
}

class StreamReader implements Upstream<StreamEntry> {
  readonly #options: StreamOptions;
  readonly #clock: Clock;
  #writer: Redis | undefined;
  /** The last fault that a connection has reported; its commands say no more than that it is closed. */
  #fault: unknown;
  /** Ids that were offered and not settled, so that a claim does not take them from ourselves. */
  readonly #held = new Set<string>();

  constructor(options: StreamOptions, clock: Clock) {
    this.#options = options;
    this.#clock = clock;
  }

  /** Reads until the source stops. @throws Error when Redis fails */
  async session(intake: Intake<StreamEntry>, { stopping, ending, connected }: SessionLife): Promise<void> {
    this.#fault = undefined;
    const [reading, writing] = [this.#client(), this.#client()];
    const close = (): void => reading.disconnect();
    stopping.addEventListener("abort", close, { once: true });
    // Without it nothing can be acknowledged, so nothing more is read.
    writing.once("end", close);
    try {
      await Promise.all([reading.connect(), writing.connect()]);
      // A client whose database is not there goes on in database 0, and only reports that.
      if (this.#fault !== undefined) throw new Error("the connection is not as it should be");
      this.#writer = writing;
      await this.#makeGroup(writing);
      connected();
      void watchBacklog(this.#clock, intake, ending, () => this.#backlog(writing));
      await this.#readAll(reading, intake, stopping);
    } catch (error) {
      // While the source stops, what is under way is still acknowledged: by the connection that `close` knows, and no other.
      if (!stopping.aborted || this.#writer !== writing) writing.disconnect();
      throw this.#fault ?? error;
    } finally {
      stopping.removeEventListener("abort", close);
      close();
    }
  }

  async stored(entries: readonly StreamEntry[]): Promise<void> {
    await this.#settle(entries, () => this.#acknowledge(entries.map(({ entryId }) => entryId)));
  }

  /** Moves an entry to the dead stream, with all its fields, the reason, and where it stood. */
  async setAside(entry: StreamEntry, { code, detail }: Poison): Promise<void> {
    const { entryId, fields } = entry;
    await this.#settle([entry], async () => {
      const about = ["relay-code", code, "relay-reason", detail, "relay-entry", entryId];
      // Not in one MULTI, which runs the second command also when the first one fails. A crash between them repeats both.
      await this.#connected().xadd(this.#options.dead, "*", ...fields, ...about);
      await this.#acknowledge([entryId]);
    });
  }

  /** Closes the connection that acknowledges. */
  close(): void {
    this.#writer?.disconnect();
  }

  /** A server that is gone without a word: a read answers after BLOCK_MS at the latest. */
  #client(): Redis {
    const { url, tls } = this.#options;
    return redisClient(url, tls, BLOCK_MS + ANSWER_MS, (error) => (this.#fault = error));
  }

  async #makeGroup(writing: Redis): Promise<void> {
    try {
      await writing.xgroup("CREATE", this.#options.stream, this.#options.group, "0", "MKSTREAM");
    } catch (error) {
      if (!String((error as Error).message).startsWith("BUSYGROUP")) throw error;
    }
  }

  /** Asks for what no consumer of the group has got: Redis 7 knows it, unless entries were deleted out of order. */
  async #backlog(writing: Redis): Promise<Backlog | undefined> {
    const groups = (await writing.xinfo("GROUPS", this.#options.stream)) as readonly (readonly unknown[])[];
    const group = groups.find((one) => one[one.indexOf("name") + 1] === this.#options.group);
    const lag = group?.[group.indexOf("lag") + 1];
    return typeof lag === "number" ? { count: lag } : undefined;
  }

  /** Reads first what an earlier run of this consumer left, then what others have left, then what is new. */
  async #readAll(reading: Redis, intake: Intake<StreamEntry>, stopping: AbortSignal): Promise<void> {
    const { stream, group, consumer, claimAfterMs } = this.#options;
    let own: string | undefined = "0";
    let claimed = "0-0";
    let claimAt = 0;
    while (!stopping.aborted) {
      const room = Math.min(PAGE, await intake.room());
      if (room === 0) return;
      if (own !== undefined) {
        const left = entriesOf(stream, await this.#read(reading, room, own), true);
        await this.#offer(left, intake);
        own = left.last;
      } else if (this.#clock.monotonic() >= claimAt) {
        const { next, claimed: found } = claimReply(
          await reading.callBuffer("XAUTOCLAIM", stream, group, consumer, claimAfterMs, claimed, "COUNT", room),
        );
        await this.#offer(entriesOf(stream, found, true), intake);
        claimed = next;
        if (next === "0-0") claimAt = this.#clock.monotonic() + claimAfterMs / 2;
      } else {
        await this.#offer(entriesOf(stream, await this.#read(reading, room, ">"), false), intake);
      }
    }
  }

  async #read(reading: Redis, count: number, from: string): Promise<ReturnType<typeof readReply>> {
    const { stream, group, consumer, claimAfterMs } = this.#options;
    const block = from === ">" ? ["BLOCK", Math.min(BLOCK_MS, claimAfterMs / 2)] : [];
    const args = ["GROUP", group, consumer, "COUNT", count, ...block, "STREAMS", stream, from];
    return readReply(await reading.callBuffer("XREADGROUP", ...args));
  }

  async #offer({ entries, gone }: Entries, intake: Intake<StreamEntry>): Promise<void> {
    if (gone.length > 0 && this.#writer !== undefined) await this.#acknowledge(gone);
    const fresh = entries.filter(({ entryId }) => !this.#held.has(entryId));
    for (const { entryId } of fresh) this.#held.add(entryId);
    if (fresh.length > 0) intake.offer(fresh);
  }

  /** An entry that is not acknowledged stays pending: the next session reads it again. */
  async #settle(entries: readonly StreamEntry[], work: () => Promise<unknown>): Promise<void> {
    try {
      await work();
    } finally {
      for (const { entryId } of entries) this.#held.delete(entryId);
    }
  }

  async #acknowledge(entryIds: readonly string[]): Promise<void> {
    await this.#connected().xack(this.#options.stream, this.#options.group, ...entryIds);
  }

  #connected(): Redis {
    if (this.#writer === undefined) throw new Error("no connection to Redis");
    return this.#writer;
  }
}

interface StreamEntry extends RawMessage {
  /** Its id in the stream: `1699-0`. */
  readonly entryId: string;
  /** Names and values as they are in the stream. */
  readonly fields: readonly Buffer[];
}

/** An entry as it is in a reply; `null` fields: it was deleted since it was delivered. */
type Reply = readonly [id: Buffer, fields: readonly Buffer[] | null];

interface Entries {
  readonly entries: readonly StreamEntry[];
  /** Ids of entries that were deleted. */
  readonly gone: readonly string[];
  /** The last id of the reply. */
  readonly last?: string;
}

/** The field that holds the message. */
const FIELD = "event";

/** @param redelivered whether they were delivered before */
function entriesOf(stream: string, replies: readonly (Reply | null)[], redelivered: boolean): Entries {
  const entries: StreamEntry[] = [];
  const gone: string[] = [];
  let last: string | undefined;
  for (const reply of replies) {
    if (reply === null) continue;
    const [id, fields] = reply;
    last = id.toString("latin1");
    if (fields === null) gone.push(last);
    else entries.push(entryOf(stream, last, fields, redelivered));
  }
  return { entries, gone, last };
}

function entryOf(stream: string, entryId: string, fields: readonly Buffer[], redelivered: boolean): StreamEntry {
  let payload: Buffer | undefined;
  let headers: Record<string, string> | undefined;
  for (let i = 0; i + 1 < fields.length; i += 2) {
    const name = (fields[i] as Buffer).toString("utf8").toLowerCase();
    const value = fields[i + 1] as Buffer;
    if (name === FIELD) payload = value;
    else (headers ??= {})[name] = value.toString("utf8");
  }
  return {
    payload: payload ?? "",
    ...(payload === undefined && { lacks: `The entry has no field "${FIELD}".` }),
    contentType: headers?.["content-type"],
    headers,
    subject: stream,
    at: Number.parseInt(entryId, 10),
    place: `${stream}-${entryId}`,
    redelivered,
    entryId,
    fields,
  };
}

/** The reply of XREADGROUP for one stream; nothing when no entry came in time. */
const readReply = (reply: unknown): readonly (Reply | null)[] =>
  (reply as readonly (readonly [Buffer, readonly (Reply | null)[]])[] | null)?.[0]?.[1] ?? [];

/** The reply of XAUTOCLAIM: where to go on, and what was claimed. */
function claimReply(reply: unknown): { readonly next: string; readonly claimed: readonly (Reply | null)[] } {
  const [next, claimed] = reply as readonly [Buffer, readonly (Reply | null)[]];
  return { next: next.toString("latin1"), claimed };
}
