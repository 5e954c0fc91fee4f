/** Finds the server that takes writes among the hosts of a URL, and connects to it. */
import type pg from "pg";
import type { Clock } from "../../../core/ports/clock.ts";
import { openClient, type Opened } from "../../brokers/postgres.ts";

export type Client = pg.Client;
/** Returns where PostgreSQL is, for people: hosts and database, without user and password. */
export type PostgresPlace = () => string;

/** Time to connect to one host, ms. */
const CONNECT_MS = 3_000;

/** Every host answers, but none takes writes: a failover may be under way. */
class NoPrimaryError extends Error {
  readonly code = "25006";
}

interface ServerOptions {
  readonly library: typeof pg;
  readonly urls: readonly string[];
  readonly clock: Clock;
  readonly ended: AbortSignal;
}

export class Server {
  readonly #options: ServerOptions;
  /** The host that took writes last is asked first. */
  #at = 0;

  constructor(options: ServerOptions) {
    this.#options = options;
  }

  readonly place: PostgresPlace = () => {
    const urls = this.#options.urls.map((one) => new URL(one));
    return urls.map(({ host }) => host).join(", ") + (urls[0]?.pathname ?? "");
  };

  /** @param queryMs how long a query may take that says nothing else, ms */
  async open(queryMs: number): Promise<Opened> {
    const { urls } = this.#options;
    let failure: unknown;
    for (let i = 0; i < urls.length; i++) {
      const at = (this.#at + i) % urls.length;
      try {
        const opened = await this.#openOne(urls[at] as string, queryMs);
        this.#at = at;
        return opened;
      } catch (error) {
        // That a standby answered says less than why another host did not.
        if (!(error instanceof NoPrimaryError) || failure === undefined) failure = error;
      }
    }
    throw failure;
  }

  async #openOne(url: string, queryMs: number): Promise<Opened> {
    const { library, clock, ended } = this.#options;
    const opened = await openClient(library, url, clock, ended, { connectMs: CONNECT_MS, queryMs });
    try {
      const { rows } = await opened.client.query<{ away: string }>(
        "select case when pg_is_in_recovery() or current_setting('transaction_read_only') = 'on' then 'away' end as away",
      );
      if (rows[0]?.away !== null) throw new NoPrimaryError("it takes no writes: a standby, or read-only");
      return opened;
    } catch (error) {
      opened.drop();
      await opened.close();
      throw error;
    }
  }
}
