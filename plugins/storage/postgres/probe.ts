/** Reads every few seconds what a commit is worth, what holds vacuum back, and keeps the hot tables small. */
import { every } from "../../../core/lib/every.ts";
import { StartError } from "../../../core/model/errors.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import type { Log } from "../../../core/ports/plugin.ts";
import type { Durability } from "../../../core/ports/storage.ts";
import type { Channel } from "./channel.ts";
import type { Link, Row } from "./link.ts";
import type { PostgresPlace } from "./server.ts";
import type { TimeArgument } from "./time-argument.ts";

const PROBE_MS = 5_000;
/** A transaction that keeps old rows alive for longer is warned of, ms. */
const HELD_BACK_MS = 300_000;
const VACUUM_MS = 600_000;
const OLDEST_VERSION = 140_000;

/** What is known of the server; a type, so that it may stand among the facts for operators. */
type Found = {
  readonly durability: Durability;
  readonly version: string;
  /** What keeps old rows alive for long, for people. */
  readonly heldBack?: string;
  /** False where this role may not vacuum the tables. */
  readonly vacuums: boolean;
};

interface ProbeDeps {
  readonly link: Link;
  readonly schema: string;
  readonly place: PostgresPlace;
  readonly clock: Clock;
  readonly time: TimeArgument;
  readonly log: Pick<Log, "warn" | "info">;
  readonly channel: Pick<Channel, "first">;
  readonly ended: AbortSignal;
}

const SETTINGS = `select current_setting('server_version_num'), current_setting('server_version'), current_setting('server_encoding'),
  current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit'), current_setting('synchronous_standby_names')`;

/** Whose snapshots are oldest: of sessions, of prepared transactions, and of standbys and their slots. */
const OLDEST = `select who, xmin from (
  select 'the session of process ' || pid as who, backend_xmin::text as xmin, age(backend_xmin) as age from pg_stat_activity where backend_xmin is not null and pid <> pg_backend_pid()
  union all select 'the prepared transaction ' || gid, transaction::text, age(transaction) from pg_prepared_xacts
  union all select 'the replication slot ' || slot_name, xmin::text, age(xmin) from pg_replication_slots where xmin is not null) q
  order by age desc limit 1`;

/** Returns what commits are worth by these settings. A standby that only has written them to its memory counts for nothing. */
export function durabilityOf([, , , fsync, pages, commit, standbys]: Row): Durability {
  if (fsync === "off" || pages === "off" || commit === "off") return "volatile";
  return standbys !== "" && (commit === "on" || commit === "remote_apply") ? "replicated" : "fsync";
}

/** @throws StartError 78 when the server is too old, or stores texts in another encoding */
export async function probePostgres(deps: ProbeDeps): Promise<() => Found> {
  const { link, schema, place, clock, log, ended, channel } = deps;
  const [first] = await link.run({ text: SETTINGS });
  const [number, version = "", encoding] = first as Row;
  const refuse = (why: string): never => {
    throw new StartError(78, `PostgreSQL at ${place()} cannot be used: ${why}`);
  };
  if (Number(number) < OLDEST_VERSION) refuse(`it is version ${version}, and needs to be 14 or newer`);
  if (encoding !== "UTF8") refuse(`the database has the encoding ${encoding}: make one with UTF8`);
  const [owner] = await link.run({
    text: `select pg_has_role(relowner, 'usage')::text from pg_class where oid = '"${schema}".due'::regclass`,
  });
  const vacuums = owner?.[0] === "true";
  if (!vacuums)
    log.warn(
      "this role cannot vacuum the tables of the relay: their owner, or autovacuum every few seconds, must keep them small",
      { storage: "postgres" },
    );
  let found: Found = { durability: durabilityOf(first as Row), version: version ?? "", vacuums };
  const held = heldBack(deps);
  let round = 0;

  async function look(): Promise<void> {
    const [row] = await link.run({ text: SETTINGS });
    const durability = durabilityOf(row as Row);
    if (durability !== found.durability) log.warn("the durability of the storage has changed", { durability });
    found = { durability, version: row?.[1] ?? "", vacuums, ...(await held()) };
    if (!channel.first) return;
    round++;
    if (round % 4 === 0)
      await link.run(
        { text: `select "${schema}".tidy($1,$2)`, values: () => deps.time.now() },
        { answerMs: VACUUM_MS },
      );
    if (vacuums) await vacuum(link, schema, round);
  }
  every(clock, PROBE_MS, () => look().catch(() => undefined), ended).catch(() => undefined);
  return () => found;
}

/**
 * Autovacuum looks once a minute, by default, and a minute's work at full speed stays as dead rows. The large table is done
 * less often: its indexes are read as a whole.
 */
async function vacuum(link: Link, schema: string, round: number): Promise<void> {
  const tables = ["due", "ready", "done", ...(round % 3 === 0 ? ["kv", "tally", "node", "clock", "head"] : [])];
  for (const table of tables) {
    const text = `vacuum (truncate off, skip_locked) "${schema}".${table}`;
    await link.run({ text }, { answerMs: VACUUM_MS }).catch(() => undefined);
  }
}

/** Follows the oldest snapshot: one that stays for long keeps every row that was deleted since. */
function heldBack({ link, clock, log }: ProbeDeps): () => Promise<Pick<Found, "heldBack">> {
  let since = { xmin: "", at: 0, said: false };
  return async () => {
    const [row] = await link.run({ text: OLDEST });
    const [who = "", xmin = ""] = (row ?? []) as [string?, string?];
    const now = clock.monotonic();
    if (xmin !== since.xmin) since = { xmin, at: now, said: false };
    if (xmin === "" || now - since.at < HELD_BACK_MS) return {};
    if (!since.said) log.warn("an old transaction keeps vacuum from freeing rows: end it", { error: who });
    since.said = true;
    return { heldBack: who };
  };
}
