// Somebody who manages subscriptions while the relay is under torture, and notes what each answer promised.
import { Agent, request } from "undici";
import type { Erasures } from "./erasures.ts";
import type { Random } from "./random.ts";
import type { Kind, Publications } from "./publications.ts";
import { sleep } from "./process.ts";
import type { Receivers } from "./receivers.ts";
import { accessToken, TIMEOUT_MS, type Relay } from "./relay.ts";
import { LONGEST_OVERLAP_MS, noteSecret, type Subject } from "./subject.ts";

export interface Operator {
  /** Makes a subscription, again and again until the answer is there. */
  make(kind: Kind, stable: boolean, apart?: boolean): Promise<Subject>;
  /** Changes and replays at random until `finish`. */
  begin(): void;
  /** Replays all that failed there. @returns how many were replayed; undefined when it was not done */
  replayFailed(subject: Subject): Promise<number | undefined>;
  /** Below `/api-keys/`. Undefined when there was no answer. */
  ask(method: Method, path: string, body?: unknown): Promise<Answer | undefined>;
  readonly wrong: readonly string[];
  /** How often each thing was done, and how often in vain. */
  readonly counts: Readonly<Record<string, number>>;
  /** Begins nothing more. */
  finish(): Promise<void>;
  close(): Promise<void>;
}

/** A deletion waits for a silent node for 15 s. */
const PATIENCE_MS = 20_000;
/** Who work at once, and how many subscriptions of each come and go. */
const WORKERS = 3;
const MOST = 3;
const DEEDS = [
  "create",
  "remove",
  "disable",
  "enable",
  "enable",
  "rotate",
  "rotate",
  "replay",
  "bulk",
  "erase",
  "erase",
] as const;
const TRIES = 400;

export interface OperatorOptions {
  readonly relays: readonly Relay[];
  readonly receivers: Receivers;
  readonly random: Random;
  readonly publications: Publications;
  readonly erasures: Erasures;
  /** Kinds that the subscriptions which come and go ask for. */
  readonly kinds: readonly Kind[];
  /** True when events of the key may be erased one by one. */
  readonly erasable: (keyId: string) => boolean;
  /** Rest between deeds, at most, ms. */
  readonly restMs: number;
}

type Method = "GET" | "POST" | "PATCH" | "DELETE";

export interface Answer {
  readonly status: number;
  readonly data: Readonly<Record<string, string | number>>;
  readonly text: string;
}

export function openOperator(options: OperatorOptions): Operator {
  const { relays, receivers, random, publications, erasures, kinds, erasable, restMs } = options;
  const agent = new Agent({ connect: { timeout: 1_000 }, headersTimeout: PATIENCE_MS, bodyTimeout: PATIENCE_MS });
  const wrong: string[] = [];
  const counts: Record<string, number> = {};
  let ending = false;
  let working: Promise<unknown> = Promise.resolve();
  let token = accessToken();
  let tokenAt = performance.now();

  const count = (what: string): void => void (counts[what] = (counts[what] ?? 0) + 1);

  async function ask(method: Method, path: string, body?: unknown): Promise<Answer | undefined> {
    // Fresh enough for what wants a second factor of the last five minutes.
    if (performance.now() - tokenAt > 120_000) [token, tokenAt] = [accessToken(), performance.now()];
    const relay = random.pick(relays);
    for (const until = performance.now() + PATIENCE_MS; !relay.up() && performance.now() < until;) await sleep(5);
    try {
      const answer = await request(`${relay.url}/api-keys/${path}`, {
        method,
        headers: { authorization: `Bearer ${await token}`, "content-type": "application/json" },
        body: body === undefined ? undefined : JSON.stringify(body),
        dispatcher: agent,
      });
      const text = await answer.body.text();
      const { data = {} } = (text === "" ? {} : JSON.parse(text)) as { readonly data?: Answer["data"] };
      if (answer.statusCode === 500) wrong.push(`${method} ${path} was answered 500: ${text.slice(0, 300)}`);
      return { status: answer.statusCode, data, text };
    } catch {
      return undefined;
    }
  }

  const hook = ({ keyId, id = "" }: Subject, more = ""): string => `${encodeURIComponent(keyId)}/webhooks/${id}${more}`;

  /** Its making was not answered: it may be there all the same. */
  async function find(subject: Subject): Promise<"there" | "not there" | "unknown"> {
    const answer = await ask("GET", `${encodeURIComponent(subject.keyId)}/webhooks?limit=200`);
    if (answer?.status !== 200) return "unknown";
    const all = answer.data as unknown as readonly { readonly id: string; readonly url: string }[];
    subject.id = all.find(({ url }) => url.endsWith(`/s/${subject.number}`))?.id;
    return subject.id === undefined ? "not there" : "there";
  }

  /** One try. @returns whether it was answered */
  async function create(subject: Subject): Promise<boolean> {
    const path = `${encodeURIComponent(subject.keyId)}/webhooks`;
    const url = `${receivers.origin(subject)}/s/${subject.number}`;
    const answer = await ask("POST", path, { url, events: [subject.type] });
    if (answer?.status !== 201) return false;
    subject.id = String(answer.data["id"]);
    noteSecret(subject, String(answer.data["secret"]), performance.now(), 0);
    return true;
  }

  async function remove(subject: Subject): Promise<void> {
    for (let tries = 0; tries < TRIES; tries++) {
      const answer = await ask("DELETE", hook(subject));
      if (answer?.status === 204 || (answer?.status === 404 && tries > 0)) {
        subject.quiet.push({ from: performance.now(), until: Number.POSITIVE_INFINITY, why: "deleted" });
        return;
      }
      if (answer?.status === 404) wrong.push(`${subject.id} was made, and is not there to be deleted`);
      await sleep(50);
    }
  }

  async function disable(subject: Subject): Promise<void> {
    const answer = await ask("PATCH", hook(subject), { status: "disabled" });
    // An attempt that had begun may go on for as long as one takes.
    if (answer?.status === 200)
      subject.quiet.push({ from: performance.now() + TIMEOUT_MS, until: Number.POSITIVE_INFINITY, why: "disabled" });
  }

  async function enable(subject: Subject): Promise<void> {
    const asked = performance.now();
    for (const quiet of subject.quiet) quiet.until = Math.min(quiet.until, asked);
    await ask("PATCH", hook(subject), { status: "active" });
  }

  async function rotate(subject: Subject): Promise<void> {
    const overlapSeconds = random.pick([0, LONGEST_OVERLAP_MS / 1_000]);
    subject.untold = true;
    const asked = performance.now();
    const answer = await ask("POST", hook(subject, "/rotate-secret"), { overlapSeconds });
    if (answer?.status !== 200) return;
    noteSecret(subject, String(answer.data["secret"]), asked, performance.now() + overlapSeconds * 1_000);
  }

  async function replay(): Promise<void> {
    const event = newest(publications, random);
    if (event === undefined) return;
    const path = `${encodeURIComponent(event.keyId)}/events/${event.id}/replay`;
    const answer = await ask("POST", path, { force: random.chance(0.5) });
    if (answer?.status === 404 && !erasures.mayBeGone(event.keyId, event.id))
      wrong.push(`${event.id} was acknowledged, and is not found`);
  }

  async function erase(): Promise<void> {
    const event = newest(publications, random);
    // Keys of which every event is counted, and those that are erased as a whole.
    if (event === undefined || !erasable(event.keyId)) return;
    const { keyId, id } = event;
    const known = erasures.of(keyId, id);
    const wasGone = known !== undefined && known.doneAt < Number.POSITIVE_INFINITY;
    const erasure = erasures.ask(keyId, id);
    const answer = await ask("DELETE", `${encodeURIComponent(keyId)}/events/${id}`);
    if (answer?.status === 204 && wasGone) wrong.push(`${id} was erased, and is erased once more`);
    if (answer?.status === 404 && erasure.asks === 1) wrong.push(`${id} was acknowledged, and is not found`);
    if (answer?.status === 204 || answer?.status === 404) erasure.doneAt = Math.min(erasure.doneAt, performance.now());
  }

  async function replayFailed(subject: Subject): Promise<number | undefined> {
    const answer = await ask("POST", hook(subject, "/replay"), { perSecond: 1_000 });
    return answer?.status === 202 ? Number(answer.data["replayed"]) : undefined;
  }

  /** Made now, or found afterwards; undefined when it was never stored. */
  async function another(): Promise<Subject | undefined> {
    const { keyId, type } = random.pick(kinds);
    const made = receivers.add(keyId, type, false);
    if (await create(made)) return made;
    for (let tries = 0; tries < TRIES && !ending; tries++) {
      const found = await find(made);
      if (found !== "unknown") return found === "there" ? made : undefined;
    }
    return undefined;
  }

  /** One who works alone: nobody else changes the subscriptions that it made. */
  async function work(): Promise<void> {
    let own: readonly Subject[] = [];
    while (!ending) {
      await sleep(random.int(0, restMs));
      const what = own.length === 0 ? "create" : random.pick(DEEDS);
      const subject = own.length === 0 ? undefined : random.pick(own);
      if (subject === undefined || what === "create") {
        const made = own.length < MOST ? await another() : undefined;
        if (made !== undefined) own = [...own, made];
      } else if (what === "remove") {
        await remove(subject);
        own = own.filter((one) => one !== subject);
      } else await does[what](subject);
      count(what);
    }
  }

  const does = { disable, enable, rotate, replay, bulk: replayFailed, erase };

  return {
    wrong,
    counts,
    ask,
    replayFailed,
    async make({ keyId, type }, stable, apart) {
      for (let tries = 0; tries < TRIES; tries++) {
        const made = receivers.add(keyId, type, stable, apart);
        if (await create(made)) return made;
        // It may be there all the same, and nobody knows its secret: the next one has a path of its own.
        made.stable = false;
        await sleep(50);
      }
      throw new Error(`no subscription could be made for ${type}`);
    },
    begin: () => void (working = Promise.all(Array.from({ length: WORKERS }, work))),
    async finish() {
      ending = true;
      await working;
    },
    close: () => agent.destroy(),
  };
}

/** One of the events acknowledged last: those are still under way. */
function newest({ ledger }: Publications, random: Random): { readonly keyId: string; readonly id: string } | undefined {
  const last = ledger.size - random.int(1, Math.max(1, Math.min(200, ledger.size)));
  const event = ledger.get(`r${last}`);
  const [id] = event?.accepted ?? [];
  return event === undefined || id === undefined ? undefined : { keyId: event.keyId, id };
}
