/** One connection, made again where it breaks: each call ends in time, and reports what may have happened. */
import { randomBytes } from "node:crypto";
import { causeOf } from "../../../core/lib/reason.ts";
import { within } from "../../../core/lib/within.ts";
import { StorageError } from "../../../core/model/errors.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import type { Opened } from "../../brokers/postgres.ts";
import type { Client, Server } from "./server.ts";

/** How long a call insists while PostgreSQL is not there or refuses, ms. */
const CALL_MS = 2_000;
/** How long an answer may take before the connection is taken for lost, ms. */
const ANSWER_MS = 4_000;
/** Wait between tries, ms. */
const AGAIN_MS = 40;
const RECONNECT_MS = 200;
/** Most repeats of a transaction that raced with another. */
const RACES = 100;

interface Statement {
  readonly text: string;
  /** Prepared under this name, where sessions last. */
  readonly name?: string;
  /** Called when it is sent, each time: until then it may wait for others. */
  readonly values?: () => readonly unknown[];
}

interface CallOptions {
  /** A lost answer leaves open if something was changed, and a warning that a standby may lack it too. @default false */
  readonly changes?: boolean;
  /** Running it twice is harmless: it is repeated after a lost answer. @default true */
  readonly repeatable?: boolean;
  /** How long an answer may take, ms. @default ANSWER_MS */
  readonly answerMs?: number;
  /** Called when it raced with another transaction, before it is repeated. */
  readonly raced?: () => void;
}

export type Row = readonly (string | null)[];

/**
 * The kinds of failure. `again`: it raced with another transaction. `refused`: nothing was changed, and it may work soon.
 * `lost`: it may or may not have been carried out. `unnamed`: sessions do not last, so that nothing can be prepared.
 */
type Kind = "again" | "refused" | "lost" | "unnamed" | "full" | "broken";

function kindOf(error: unknown): Kind {
  const { code } = error as { readonly code?: unknown };
  if (typeof code !== "string" || !/^[0-9A-Z]{5}$/.test(code)) return "lost";
  if (code === "40001" || code === "40P01" || code === "23505") return "again";
  if (code === "42P05" || code === "26000") return "unnamed";
  if (code === "53100") return "full";
  // No write here, starting up, too many clients, out of memory, cancelled by somebody.
  if (["25006", "57P03", "53300", "53200", "57014", "55P03"].includes(code)) return "refused";
  if (/^(?:08|57P|40003|58|XX)/.test(code)) return "lost";
  return "broken";
}

export class Link {
  readonly #server: Server;
  readonly #clock: Clock;
  readonly #opened: (client: Client) => Promise<void> | void;
  #connection: Opened | undefined;
  #opening: Promise<Opened | undefined> | undefined;
  /** Why there is no connection. */
  #why: unknown = Object.assign(new Error("it does not answer"), { code: "ETIMEDOUT" });
  /** It could not be reached at the last call: the next ones need not wait as long again. */
  #gone = false;
  #named = true;
  /** Part of the names of its statements: a pooler may lead it to a session where another relay has prepared its own. */
  readonly #mark = randomBytes(6).toString("base64url");
  #warned = false;
  #closed = false;
  /** The server's process that gave no answer in time, where sessions last. */
  #stuck: number | undefined;
  #last: Promise<unknown> = Promise.resolve();

  /** @param opened called with each new connection, before it is used */
  constructor(server: Server, clock: Clock, opened: (client: Client) => Promise<void> | void = () => undefined) {
    this.#server = server;
    this.#clock = clock;
    this.#opened = opened;
  }

  /** Connects now, and throws what the server says. */
  async connect(): Promise<void> {
    if ((await this.#open()) === undefined) throw this.#why;
  }

  /** Runs a statement behind those that wait already. @throws StorageError */
  run(statement: Statement, options: CallOptions = {}): Promise<readonly Row[]> {
    const own = this.#last.then(() => this.#insist(statement, options));
    this.#last = own.catch(() => undefined);
    return own;
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#last;
    await this.#opening;
    await this.#connection?.close();
    this.#connection = undefined;
  }

  async #insist(statement: Statement, options: CallOptions): Promise<readonly Row[]> {
    const { changes = false, repeatable = true, answerMs = ANSWER_MS, raced } = options;
    const clock = this.#clock;
    let until = clock.monotonic() + (this.#gone ? 0 : CALL_MS);
    let races = 0;
    let open = false;
    for (;;) {
      const { rows, error } = await this.#tryOnce(statement, answerMs, until);
      const uncertain = error === undefined && changes && this.#warned;
      if (rows !== undefined && !uncertain) {
        this.#gone = false;
        return rows;
      }
      const kind = uncertain ? "lost" : error === this.#why ? "refused" : kindOf(error);
      const why = uncertain ? "a standby may lack it" : causeOf(error);
      if (kind === "unnamed" && this.#named) {
        this.#named = false;
        continue;
      }
      if (kind === "again" && ++races <= RACES) {
        raced?.();
        continue;
      }
      if (kind === "full" || kind === "broken" || kind === "unnamed" || kind === "again") {
        const what = kind === "full" ? "has no room" : "refused a statement";
        throw new StorageError(
          open ? "uncertain" : kind === "full" ? "full" : "broken",
          `PostgreSQL ${what} (${why})`,
          { cause: error },
        );
      }
      if (kind === "lost") {
        // The repeat finds out what became of it.
        if (!open && repeatable) until = Math.max(until, clock.monotonic() + CALL_MS / 2);
        open ||= changes;
      }
      if (!uncertain && error !== this.#why) this.#drop(error);
      if ((kind === "lost" && !repeatable) || clock.monotonic() + AGAIN_MS >= until) {
        this.#gone = true;
        // A caller that retries after an immediate refusal must not starve the connection that comes back.
        await new Promise((resolve) => void setImmediate(resolve));
        throw new StorageError(open ? "uncertain" : "unavailable", `PostgreSQL does not answer (${why})`, {
          cause: error,
        });
      }
      await clock.sleep(clock.now() + AGAIN_MS);
    }
  }

  async #tryOnce(
    { text, name, values }: Statement,
    answerMs: number,
    until: number,
  ): Promise<{ readonly rows?: readonly Row[]; readonly error?: unknown }> {
    const connection = this.#connection ?? (await this.#within(until));
    if (connection === undefined) return { error: this.#why };
    this.#warned = false;
    try {
      const config = {
        text,
        values: values === undefined ? [] : [...values()],
        rowMode: "array" as const,
        query_timeout: answerMs,
      };
      const { rows } = await connection.client.query<(string | null)[]>(
        name === undefined || !this.#named ? config : { ...config, name: `${name}.${this.#mark}` },
      );
      return { rows };
    } catch (error) {
      return { error };
    }
  }

  /** Waits for a connection, as long as there is time. */
  async #within(until: number): Promise<Opened | undefined> {
    const opening = this.#open();
    const left = until - this.#clock.monotonic();
    if (left > 0) await within(this.#clock, left, opening);
    return this.#connection;
  }

  #open(): Promise<Opened | undefined> {
    if (this.#connection !== undefined) return Promise.resolve(this.#connection);
    this.#opening ??= this.#make().finally(() => (this.#opening = undefined));
    return this.#opening;
  }

  async #make(): Promise<Opened | undefined> {
    let made: Opened | undefined;
    try {
      if (this.#closed) throw new Error("the storage is closed");
      made = await this.#server.open(ANSWER_MS);
      made.client.on("end", () => {
        if (this.#connection === made) this.#connection = undefined;
      });
      made.client.on("notice", ({ code }: { readonly code?: string | undefined }) => {
        if (code === "01000") this.#warned = true;
      });
      // It may wait for a standby, or hold locks, for ever: nobody reads its answer any more.
      const stuck = this.#stuck;
      this.#stuck = undefined;
      if (stuck !== undefined && this.#named) await made.client.query("select pg_cancel_backend($1)", [stuck]);
      await this.#opened(made.client);
      this.#connection = made;
      this.#gone = false;
      return made;
    } catch (error) {
      // Each try that failed later than at connecting would leave one behind.
      made?.drop();
      this.#why = error;
      // Tried again in the background, so that calls find out at once that it is back.
      if (!this.#closed && this.#gone)
        void this.#clock
          .sleep(this.#clock.now() + RECONNECT_MS)
          .then(() => (this.#closed || !this.#gone ? undefined : this.#open()));
      return undefined;
    }
  }

  #drop(why: unknown): void {
    const { code } = why as { readonly code?: unknown };
    // What the server refused by itself says nothing about the connection.
    if (["57014", "55P03", "53200"].includes(String(code))) return;
    if (/read timeout/i.test(String(why))) this.#stuck = (this.#connection?.client as Numbered | undefined)?.processID;
    this.#connection?.drop();
    this.#connection = undefined;
  }
}

type Numbered = Client & { readonly processID?: number };
