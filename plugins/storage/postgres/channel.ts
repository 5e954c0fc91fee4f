/**
 * Receives notifications from other nodes: changed keys, messages, and that something is due. A bell only says that there is
 * something to read. Signs of life read too, so that a lost bell, or a pooler that passes none on, only costs time.
 */
import { CONTROL, SUBSCRIPTION } from "../../../core/model/schema.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import { Watchers } from "../embedded/watch.ts";
import { Link } from "./link.ts";
import type { Client, Server } from "./server.ts";
import type { TimeArgument } from "./time-argument.ts";

/** How often a node gives a sign of life, and how often it does while no bell can ring, ms. */
const ALIVE_MS = 1_000;
const DEAF_MS = 250;
/** Local answers about leases hold for so long after the last sign of life that was answered, ms. */
const SURE_MS = 3_000;
/** Bare prefixes of the watched keys: any key with them may have changed. */
const EVERYTHING = [SUBSCRIPTION.start, CONTROL.start];

/** How many commits watchers were told of, and the id of the last one: with one number, other ids are other data. */
export interface Epoch {
  readonly n: number;
  readonly id: string;
}

/** What a sign of life brings. */
interface State extends Epoch {
  readonly word: number;
  /** The id at the epoch that this node knows. */
  readonly known: string | null;
  readonly changes: readonly (readonly [n: number, id: string, keys: string])[] | null;
  readonly words: readonly string[] | null;
  readonly others: number;
  readonly first: boolean;
  readonly dead: readonly string[] | null;
}

interface ChannelDeps {
  /** Where sessions last. */
  readonly server: Server;
  readonly schema: string;
  readonly clock: Clock;
  readonly time: TimeArgument;
  readonly node: string;
  readonly ended: AbortSignal;
  /** Called with each message of another node. */
  readonly heard: (text: string) => void;
  /** Called with each bell that is for the queue. */
  readonly rung: (words: readonly string[]) => void;
  /** Called after each sign of life, with the nodes that are dead. */
  readonly lived: (dead: readonly string[]) => void;
}

export class Channel {
  readonly #deps: ChannelDeps;
  readonly #watchers = new Watchers();
  readonly #link: Link;
  #epoch: Epoch = { n: 0, id: "" };
  #word = 0;
  #listening = false;
  #others = 0;
  #first = true;
  #looking: Promise<void> | undefined;
  #again = false;

  constructor(deps: ChannelDeps) {
    this.#deps = deps;
    this.#link = new Link(deps.server, deps.clock, (client) => this.#listen(client));
  }

  /** Everything up to this epoch has been passed on here. */
  get epoch(): Epoch {
    return this.#epoch;
  }

  /** True while bells ring here. */
  get listening(): boolean {
    return this.#listening;
  }

  /** How many other nodes live. */
  get others(): number {
    return this.#others;
  }

  /** True for one of the living nodes: for what only one should do. */
  get first(): boolean {
    return this.#first;
  }

  /** True while no other node can have taken this one's leases, or cancelled them without its knowledge. */
  get sure(): boolean {
    return this.#deps.time.since() < SURE_MS;
  }

  watch(changed: (keys: readonly string[]) => void): () => void {
    return this.#watchers.watch(changed);
  }

  /** Connects, and gives the first sign of life. */
  async start(): Promise<void> {
    const { schema } = this.#deps;
    await this.#link.connect();
    const [row] = await this.#link.run({ text: `select n, id, word from "${schema}".head` });
    this.#epoch = { n: Number(row?.[0]), id: row?.[1] ?? "" };
    this.#word = Number(row?.[2]);
    await this.look();
    void this.#live();
  }

  /** Deregisters this node: nobody waits for it any more. */
  async leave(): Promise<void> {
    const { schema, node } = this.#deps;
    await this.#looking?.catch(() => undefined);
    const text = `delete from "${schema}".node where id = $1`;
    await this.#link.run({ text, values: () => [node] }).catch(() => undefined);
    await this.#link.close();
  }

  /** Gives a sign of life, and passes on what came since the last. Never rejects. */
  async look(): Promise<void> {
    if (this.#looking !== undefined) {
      this.#again = true;
      return this.#looking;
    }
    this.#looking = this.#look().catch(() => undefined);
    await this.#looking;
    this.#looking = undefined;
    if (!this.#again) return;
    this.#again = false;
    await this.look();
  }

  /**
   * Notes that a commit of this process touched these keys.
   * @param made the epoch that it made and the one before, where that is known
   */
  own(keys: readonly string[], made?: string): void {
    const [n, id = "", before, beforeId = ""] = (made ?? "").split(" ");
    // A sign of life has brought it already.
    if (made !== undefined && Number(n) <= this.#epoch.n) return;
    const follows = Number(before) === this.#epoch.n && beforeId === this.#epoch.id;
    if (made !== undefined) this.#epoch = { n: Number(n), id };
    this.#watchers.notify(made === undefined || follows ? keys : EVERYTHING);
  }

  async #live(): Promise<void> {
    const { clock, ended } = this.#deps;
    for (;;) {
      await clock.sleep(clock.now() + (this.#listening ? ALIVE_MS : DEAF_MS), ended).catch(() => undefined);
      if (ended.aborted) return;
      await this.look();
    }
  }

  async #look(): Promise<void> {
    const { clock, schema, time, node, lived, heard } = this.#deps;
    let [sentAt, asked] = [clock.monotonic(), this.#epoch];
    const values = (): readonly unknown[] => {
      [sentAt, asked] = [clock.monotonic(), this.#epoch];
      return [...time.now(), node, asked.n, this.#word];
    };
    const [row] = await this.#link.run({ name: "beat", text: `select "${schema}".beat($1,$2,$3,$4,$5)`, values });
    const state = JSON.parse(row?.[0] ?? "") as State;
    time.noted(sentAt);
    [this.#others, this.#first] = [state.others, state.first];
    // A commit of this node has come further meanwhile.
    if (asked === this.#epoch) this.#advance(state);
    else this.#again ||= state.n > this.#epoch.n;
    this.#word = state.word;
    for (const text of state.words ?? []) heard(text);
    lived(state.dead ?? []);
  }

  #advance({ n, id, known, changes }: State): void {
    const { n: ours, id: ourId } = this.#epoch;
    if (n === ours && id === ourId) return;
    this.#epoch = { n, id };
    const whole = known === ourId && changes?.length === n - ours;
    if (!whole) return this.#watchers.notify(EVERYTHING);
    for (const [, , keys] of changes ?? []) this.#watchers.notify(JSON.parse(keys) as string[]);
  }

  async #listen(client: Client): Promise<void> {
    const { schema, node, rung } = this.#deps;
    const bell = `${schema}_bell`;
    this.#listening = false;
    const lasts = await sessionLasts(client);
    client.on("notification", ({ payload = "" }) => {
      this.#listening = lasts;
      const words = payload.split(" ");
      if (words[0] === "e" || words[0] === "w") void this.look();
      else if (words[1] !== node) rung(words);
    });
    client.on("end", () => {
      this.#listening = false;
    });
    await client.query(`listen "${bell}"`);
    // Only what is heard proves it.
    await client.query("select pg_notify($1, $2)", [bell, `hello ${node}`]);
    if (this.#epoch.n > 0) void this.look();
  }
}

/**
 * Returns whether the client has a session of its own. A pooler takes the LISTEN, and passes on what comes while it happens to
 * lend that session: it answers with a number of its own in place of the server's process.
 */
async function sessionLasts(client: Client & { readonly processID?: number }): Promise<boolean> {
  const { rows } = await client.query<{ pid: string }>("select pg_backend_pid() as pid");
  return String(client.processID) === rows[0]?.pid;
}
