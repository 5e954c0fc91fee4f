/**
 * Reports notices as operational events, at most one of a type about one thing within an hour, over all nodes and
 * restarts.
 *
 * The id of the event is made of type, thing and clock hour, and its commit fails where there is such an event: so two
 * nodes cannot both report. What comes within the hour is counted in memory, and the newest of it is reported when the
 * hour is over. A process that dies loses that count, never the first report.
 */
import { setNewest } from "../lib/bounded-map.ts";
import { ConflictError } from "../model/errors.ts";
import { ordinalTime } from "../model/ids.ts";
import { EVENT_ID } from "../model/schema.ts";
import { OPERATOR_KEY } from "../model/names.ts";
import { NOTICE_MS, type Notice } from "../model/notice.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/plugin.ts";
import type { Change, Storage } from "../ports/storage.ts";
import { commitOnce, type PrepareEvent, type Prepared } from "../records/commit-once.ts";
import { erasedAt } from "../records/erased-id.ts";
import { dataFor, listenersOf, together } from "./operational.ts";

/** Remembers one type about one thing. */
interface Kept {
  /** Monotonic ms until which it is held back. */
  quietUntil: number;
  /** How many were held back since the last report. */
  heldBack: number;
  /** The newest of them, which is reported later. */
  latest: Notice | undefined;
}

/** Types and things that are remembered. A forgotten one costs a read, and the count of what was held back. */
const KEPT = 10_000;
/** How long a report waits that could not be stored, ms. */
const AGAIN_MS = 30_000;
/** How often a commit is repeated because others reported or changed their subscriptions at the same time. */
const ROUNDS = 4;

const nameOf = ({ type, about }: Pick<Notice, "type" | "about">): string => `${type} ${about}`;
const idOf = ({ type, about }: Notice, hour: number): string => `${type.replaceAll(/[:.]/g, "-")}:${about}:${hour}`;

interface NoticesDeps {
  readonly publisher: { readonly prepare: PrepareEvent };
  readonly storage: Pick<Storage, "commit" | "getMany">;
  readonly clock: Pick<Clock, "now" | "monotonic">;
  readonly log: Pick<Log, "warn">;
}

export class Notices {
  readonly #deps: NoticesDeps;
  readonly #kept = new Map<string, Kept>();
  readonly #writes = new Set<Promise<void>>();
  /** Names of those that are being reported in commits of their own. */
  readonly #reporting = new Set<string>();

  constructor(deps: NoticesDeps) {
    this.#deps = deps;
  }

  /**
   * Prepares a notice for a commit of the caller's own. `undefined` when no subscription wants it, or when it is held
   * back. After a ConflictError prepare it again: another node may have reported meanwhile.
   * @throws StorageError
   */
  async prepare(notice: Notice): Promise<Prepared | undefined> {
    const { publisher, clock } = this.#deps;
    const { type, keyId, about, ends } = notice;
    // The doing of the operator's own subscriptions is reported to nobody: it would never end.
    if (keyId === OPERATOR_KEY) return undefined;
    const ended = ends && this.#kept.get(nameOf({ type: ends, about }));
    if (ended !== undefined) ended.latest = undefined;
    const known = this.#kept.get(nameOf(notice));
    const quiet = known === undefined ? 0 : known.quietUntil - clock.monotonic();
    if (quiet > 0) {
      this.#hold(notice, quiet);
      return undefined;
    }
    const now = clock.now();
    const heldBack = known?.heldBack ?? 0;
    const said = heldBack > 0 ? { ...notice.data, heldBack } : notice.data;
    const parts: Prepared[] = [];
    let longest = 0;
    for (const listener of listenersOf(keyId)) {
      const id = idOf(notice, Math.floor(now / NOTICE_MS));
      const part = await publisher.prepare({ keyId: listener, type, data: dataFor(listener, keyId, said), id });
      if (part === undefined) continue;
      const { quietMs, asRead } = await this.#earlier(listener, notice, now);
      if (quietMs === 0) parts.push({ ...part, changes: [...part.changes, ...asRead] });
      longest = Math.max(longest, quietMs);
    }
    const all = together(parts);
    if (all !== undefined) return { ...all, committed: () => (this.#reported(notice, heldBack), all.committed()) };
    if (longest > 0) this.#hold(notice, longest);
    else this.#kept.delete(nameOf(notice));
    return undefined;
  }

  /** Reports a notice in a commit of its own, soon. What cannot be stored is tried again by `flush`. */
  tell(notice: Notice): void {
    const name = nameOf(notice);
    const quiet = (this.#kept.get(name)?.quietUntil ?? 0) - this.#deps.clock.monotonic();
    // Thousands may come before the first of them is stored.
    const wait = this.#reporting.has(name) ? Math.max(quiet, AGAIN_MS) : quiet;
    if (wait > 0 && notice.ends === undefined) this.#hold(notice, wait);
    else void this.#report(notice);
  }

  /** Commits changes, and the notice with them unless it is held back. @throws ConflictError, StorageError */
  async commitWith(changes: readonly Change[], notice: Notice): Promise<void> {
    const { storage } = this.#deps;
    for (let round = 1; ; round++) {
      // A notice that cannot be prepared must not keep the caller's changes from being stored.
      const event =
        round > ROUNDS
          ? this.#putOff(notice, "others were first each time")
          : await this.prepare(notice).catch((error: unknown) => this.#putOff(notice, error));
      if (event === undefined) return await this.#commitAlone(changes, notice);
      try {
        if (await commitOnce(storage, [...changes, ...event.changes])) event.committed();
        return;
      } catch (error) {
        if (!(error instanceof ConflictError)) throw error;
      }
    }
  }

  /** Reports what was held back and whose hour is over. Never rejects. */
  async flush(): Promise<void> {
    const now = this.#deps.clock.monotonic();
    for (const [name, of] of this.#kept) {
      if (of.quietUntil > now) continue;
      const { latest } = of;
      if (latest === undefined) this.#kept.delete(name);
      else {
        // It counts itself when it is held back once more.
        this.#kept.set(name, { ...of, heldBack: of.heldBack - 1, latest: undefined });
        await this.#report(latest);
      }
    }
  }

  /** Resolves when what `tell` began is stored. */
  async settled(): Promise<void> {
    await Promise.all(this.#writes);
  }

  #hold(notice: Notice, ms: number): void {
    const name = nameOf(notice);
    const now = this.#deps.clock.monotonic();
    const { quietUntil, heldBack } = this.#kept.get(name) ?? { quietUntil: now, heldBack: 0 };
    const until = Math.max(quietUntil, now + Math.min(ms, NOTICE_MS));
    const latest = notice.lasting ? undefined : notice;
    setNewest(this.#kept, name, { quietUntil: until, heldBack: heldBack + 1, latest }, KEPT);
  }

  /** Holds back a notice that cannot be reported now. */
  #putOff(notice: Notice, error: unknown): undefined {
    this.#deps.log.warn("a notice waits", { type: notice.type, keyId: notice.keyId, error: String(error) });
    this.#hold(notice, AGAIN_MS);
  }

  /**
   * Reads how long a listener hears nothing more of it, ms; 0: it may hear now.
   * @returns with it the conditions that hold until another node reports
   */
  async #earlier(listener: string, notice: Notice, now: number) {
    const hour = Math.floor(now / NOTICE_MS);
    // The clocks of other nodes may be in the hour before or after this one.
    const keys = [hour, hour - 1, hour + 1].map((one) => EVENT_ID.key({ keyId: listener, id: idOf(notice, one) }));
    const rows = await this.#deps.storage.getMany(keys);
    const left = rows.map((text, i) => {
      if (text === undefined) return 0;
      const ms = NOTICE_MS - Math.abs(now - (erasedAt(text) ?? ordinalTime(text)));
      // The id of this hour is taken, whenever that was.
      return i === 0 ? Math.max(ms, (hour + 1) * NOTICE_MS - now) : ms;
    });
    const asRead = keys.slice(1).map((key, i): Change => ({ op: "check", key, if: rows[i + 1] ?? null }));
    return { quietMs: Math.max(0, ...left), asRead };
  }

  /** @param counted how many held ones the report has counted */
  #reported(notice: Notice, counted: number): void {
    const { heldBack, latest } = this.#kept.get(nameOf(notice)) ?? { heldBack: 0, latest: undefined };
    const later = Math.max(0, heldBack - counted);
    const quietUntil = this.#deps.clock.monotonic() + NOTICE_MS;
    const next = { quietUntil, heldBack: later, latest: later > 0 ? latest : undefined };
    setNewest(this.#kept, nameOf(notice), next, KEPT);
  }

  /** Commits changes whose notice is held back, or wanted by nobody. */
  async #commitAlone(changes: readonly Change[], notice: Notice): Promise<void> {
    if (changes.length === 0) return;
    try {
      await this.#deps.storage.commit(changes);
    } catch (error) {
      const of = this.#kept.get(nameOf(notice));
      // Another node has found the same first, and reported it.
      if (error instanceof ConflictError && of?.latest === notice) {
        of.heldBack--;
        of.latest = undefined;
      }
      throw error;
    }
  }

  /** Never rejects. */
  #report(notice: Notice): Promise<void> {
    const name = nameOf(notice);
    this.#reporting.add(name);
    const done = this.commitWith([], notice)
      .catch((error: unknown) => this.#putOff(notice, error))
      .finally(() => {
        this.#writes.delete(done);
        this.#reporting.delete(name);
      });
    this.#writes.add(done);
    return done;
  }
}
