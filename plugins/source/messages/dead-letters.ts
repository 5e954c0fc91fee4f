/**
 * Dead letters: messages that hold no valid event. They go where the config wants them. One that nothing there takes, or of a
 * broker that keeps none, is kept in the plug-in's own store: a log that is read to its end loses nothing.
 */
import { StringDecoder } from "node:string_decoder";
import type { PluginContext } from "../../../core/ports/plugin.ts";
import { causeOf } from "../../../core/lib/reason.ts";
import { derivedId, type Poison, type RawMessage } from "./message.ts";

/** Pause between two attempts to pass one on, ms. */
const AGAIN_MS = 5_000;
/** Most messages kept, by source: the newest, so that a publisher that goes wrong for days fills no disk. */
const MOST_KEPT = 1_000;
/** Most bytes kept of a payload, and of the key and the headers together. */
const LONGEST = 64 * 1024;
/** Reads and deletes so many at once: each may be large. */
const PAGE = 20;

export class DeadLetters {
  readonly #ctx: Pick<PluginContext, "clock" | "log" | "storage">;
  readonly #source: string;
  readonly #prefix: string;
  readonly #isFinal: (error: unknown) => boolean;
  /** Why each message that is being passed on was not taken: as many as may be in flight would let nothing through. */
  readonly #stuck = new Map<RawMessage, string>();
  #kept: number | undefined;
  #keeping: Promise<unknown> = Promise.resolve();

  /** @param isFinal true for an error that each further attempt would meet */
  constructor(
    ctx: Pick<PluginContext, "clock" | "log" | "storage">,
    source: string,
    isFinal: (error: unknown) => boolean = () => false,
  ) {
    this.#ctx = ctx;
    this.#source = source;
    this.#prefix = `set-aside/${source}/`;
    this.#isFinal = isFinal;
  }

  /**
   * Publishes a message again and again until it works, as once an exchange has a queue. One that can never be published is
   * kept here.
   * @param ending ends the attempts
   * @throws the error of the last attempt when `ending` aborts before
   */
  async pass(message: RawMessage, poison: Poison, publish: () => Promise<unknown>, ending: AbortSignal): Promise<void> {
    const { clock, log } = this.#ctx;
    const source = this.#source;
    try {
      for (;;) {
        try {
          return void (await publish());
        } catch (error) {
          if (this.#isFinal(error)) {
            log.warn("a dead letter cannot be written: the message is kept here", { source, error: String(error) });
            return await this.keep(message, poison);
          }
          const why = causeOf(error);
          if (!this.#stuck.has(message)) log.warn("a message cannot be set aside", { source, error: why });
          this.#stuck.set(message, why);
          await clock.sleep(clock.now() + AGAIN_MS, ending).catch(() => undefined);
          if (ending.aborted) throw error;
        }
      }
    } finally {
      this.#stuck.delete(message);
    }
  }

  /** Resolves when the message is stored in the plug-in's own store. */
  keep(message: RawMessage, poison: Poison): Promise<void> {
    // One after the other: two at once would count the same rows as deleted.
    const kept = this.#keeping.then(() => this.#put(message, poison));
    this.#keeping = kept.catch(() => undefined);
    return kept;
  }

  /** Says in one line for `/readyz` how many cannot be passed on now, and why; `undefined`: none. */
  readonly readiness = (): string | undefined =>
    this.#stuck.size === 0
      ? undefined
      : `${this.#stuck.size} messages cannot be set aside: ${[...this.#stuck.values()].at(-1)}`;

  async #put(message: RawMessage, { code, detail }: Poison): Promise<void> {
    const { clock, storage } = this.#ctx;
    const { payload, subject, place } = message;
    const at = clock.now();
    const bytes = Buffer.from(payload as string);
    const text = bytes.subarray(0, LONGEST).toString("base64");
    const value = { at, code, detail, subject, place, ...boundedOf(message), bytes: bytes.length, payload: text };
    // The order of keys is that of time.
    const key = `${this.#prefix}${String(at).padStart(15, "0")}-${derivedId(place)}`;
    this.#kept ??= await this.#count();
    const oldest = this.#kept < MOST_KEPT ? [] : await storage.range(this.#prefix, { limit: PAGE });
    const drop = oldest.map((row) => ({ op: "delete", key: row.key }) as const);
    await storage.commit([{ op: "put", key, value: JSON.stringify(value) }, ...drop]);
    this.#kept += 1 - oldest.length;
  }

  async #count(): Promise<number> {
    for (let [found, after] = [0, undefined as string | undefined]; ;) {
      const page = await this.#ctx.storage.range(this.#prefix, { after, limit: PAGE });
      found += page.length;
      if (page.length < PAGE) return found;
      after = page.at(-1)?.key;
    }
  }
}

/** The key and the headers, as far as there is room. What is cut says how long it was, and `headersLeftOut` counts the rest. */
function boundedOf({ key, headers }: RawMessage) {
  let room = LONGEST;
  function cut(text: string): string {
    const bytes = Buffer.from(text);
    if (bytes.length <= room) {
      room -= bytes.length;
      return text;
    }
    // A character that is cut in two is left out.
    const start = new StringDecoder("utf8").write(bytes.subarray(0, room));
    room = 0;
    return `${start}… (cut, ${bytes.length} bytes)`;
  }
  const keptKey = key === undefined ? undefined : cut(key);
  if (headers === undefined) return { key: keptKey };
  const all = Object.entries(headers);
  const kept: (readonly [string, string])[] = [];
  for (const [name, text] of all) if (room > 0) kept.push([cut(name), cut(text)]);
  const headersLeftOut = all.length > kept.length ? all.length - kept.length : undefined;
  return { key: keptKey, headers: Object.fromEntries(kept), headersLeftOut };
}
