/** What the queue does to lines in the table, beside claims. */
import { DUE } from "../../../core/model/schema.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import { longs, texts } from "./arrays.ts";
import { dueIn } from "./batch.ts";
import type { Link, Row } from "./link.ts";
import { DROPPED } from "./steps-sql.ts";
import type { TimeArgument } from "./time-argument.ts";

/** The key of a line and the token of its lease. */
type Leased = readonly [key: string, token: string];

/** Lines in one statement. */
const PAGE = 1_000;
const CANCELLED = 5_000;
const FIRST = -Number(DROPPED);
/** Beyond this many lines, their number is the server's estimate. */
const COUNTED = 200_000;
const SLOW_MS = 60_000;

export interface LinesDeps {
  readonly link: Link;
  /** For what takes longer. */
  readonly slow: Link;
  readonly schema: string;
  readonly clock: Clock;
  readonly time: TimeArgument;
  readonly leaseMs: number;
}

export class Lines {
  readonly #deps: LinesDeps;

  constructor(deps: LinesDeps) {
    this.#deps = deps;
  }

  #call(link: Link, name: string, args: readonly unknown[], answerMs?: number): Promise<readonly Row[]> {
    const marks = args.map((_, i) => `$${i + 3}`);
    const text = `select * from "${this.#deps.schema}".${name}(${["$1", "$2", ...marks].join(",")})`;
    const values = (): readonly unknown[] => [...this.#deps.time.now(), ...args];
    return link.run({ name, text, values }, answerMs === undefined ? {} : { answerMs });
  }

  /** @param inMs due in so many ms; undefined: as before */
  async handBack(lines: readonly Leased[], inMs?: number): Promise<void> {
    const args = [texts(lines.map(([key]) => key)), texts(lines.map(([, token]) => token))];
    await this.#call(this.#deps.link, "hand_back", [...args, inMs === undefined ? null : Math.floor(inMs)]);
  }

  /** @returns the tokens that still hold */
  async renew(lines: readonly Leased[]): Promise<readonly string[]> {
    const held: string[] = [];
    for (let i = 0; i < lines.length; i += PAGE) {
      const some = lines.slice(i, i + PAGE);
      const args = [texts(some.map(([key]) => key)), texts(some.map(([, token]) => token))];
      const rows = await this.#call(this.#deps.link, "renew", [this.#deps.leaseMs, ...args]);
      for (const [token] of rows) held.push(token as string);
    }
    return held;
  }

  async rest(sub: string, ms: number, how: 0 | 1): Promise<void> {
    await this.#call(this.#deps.link, "rest", [sub, Math.ceil(ms), how]);
  }

  async cancel(sub: string): Promise<void> {
    for (let from = FIRST; ;) {
      const [row] = await this.#call(this.#deps.slow, "cancel", [sub, from, CANCELLED], SLOW_MS);
      const more = Number(row?.[0]) === CANCELLED;
      // Lines that were given back meanwhile may stand before the rest.
      if (!more && from === FIRST) return;
      from = more ? Number(row?.[1]) : FIRST;
    }
  }

  /** Files lines that a cancel has dropped. */
  async revive(): Promise<number> {
    const { slow, schema, clock } = this.#deps;
    for (let found = 0; ;) {
      const text = `select key, value from "${schema}".due where at = ${DROPPED} limit ${PAGE}`;
      const rows = (await slow.run({ text })) as [string, string][];
      if (rows.length === 0) return found;
      const inMs = rows.map(([key, value]) => dueIn(DUE.read(value, key), clock.now()));
      await this.#call(slow, "revive", [texts(rows.map(([key]) => key)), longs(inMs)]);
      found += rows.length;
    }
  }

  /** Frees the lines of a node that died. @returns how many */
  async bury(node: string): Promise<number> {
    const [row] = await this.#call(this.#deps.slow, "bury", [node], SLOW_MS);
    return Number(row?.[0]);
  }

  async count(subs: readonly string[]): Promise<number> {
    const { slow, schema } = this.#deps;
    const text = `select count(*) from "${schema}".due where sub = any($1)`;
    let lines = 0;
    for (let i = 0; i < subs.length; i += PAGE) {
      const some = texts(subs.slice(i, i + PAGE));
      const [row] = await slow.run({ text, values: () => [some] }, { answerMs: SLOW_MS });
      lines += Number(row?.[0]);
    }
    return lines;
  }

  async depth(): Promise<{ readonly lines: number; readonly leased: number; readonly oldest: number | undefined }> {
    const [row] = await this.#call(this.#deps.slow, "depth", [COUNTED], SLOW_MS);
    const [lines, leased, oldest] = row ?? [];
    return {
      lines: Number(lines),
      leased: Number(leased),
      oldest: typeof oldest === "string" ? Number(oldest) : undefined,
    };
  }

  /** Rings the bell of every node. */
  async bell(words: string): Promise<void> {
    const values = (): readonly unknown[] => [`${this.#deps.schema}_bell`, words];
    await this.#deps.link.run({ text: "select pg_notify($1, $2)", values });
  }
}
