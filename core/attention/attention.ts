/** What needs attention now: of a key, of all keys in pages, of the parts of the relay. And its acknowledgement. */
import { hostname } from "node:os";
import type { Actor } from "../model/audit.ts";
import { unlessDamaged } from "../model/kind.ts";
import { API_KEY, ATTENTION, WHOLE_RELAY } from "../model/schema.ts";
import type { Subscription } from "../model/subscription.ts";
import type { Storage } from "../ports/storage.ts";
import { auditChange } from "../records/audit-trail.ts";
import { everyEntry } from "../records/every-entry.ts";
import type { SubscriptionCache } from "../records/subscription-cache.ts";
import { transact } from "../records/transaction.ts";
import { type FactsDeps, readFacts } from "./endpoints.ts";
import { type Attention, byWorst, endpointAttention, partAttention } from "./judge.ts";

/** Endpoints that one answer looks at. Each costs some reads. */
const MOST_ENDPOINTS = 1_000;

export interface Noted extends Attention {
  readonly id: string;
  /** Of the relay itself: `WHOLE_RELAY`. */
  readonly keyId: string;
  /** It is as it was then, and nothing has come to it. */
  readonly acknowledged?: { readonly at: number; readonly by: string } | undefined;
}

/** The state of each part of the relay, as `/readyz` has it. */
export type Parts = Readonly<
  Record<string, { readonly ready: boolean; readonly state?: string; readonly required?: boolean }>
>;

interface AttentionDeps extends FactsDeps {
  readonly storage: FactsDeps["storage"] & Pick<Storage, "commit">;
  readonly subscriptionCache: Pick<SubscriptionCache, "of">;
}

export class AttentionReader {
  readonly #deps: AttentionDeps;
  /** Epoch ms since which this node has seen a part not ready. */
  readonly #since = new Map<string, number>();

  constructor(deps: AttentionDeps) {
    this.#deps = deps;
  }

  /** @param only the endpoint that is asked about. @default all of the key */
  async ofKey(keyId: string, only?: string): Promise<readonly Noted[]> {
    const subs = (await this.#deps.subscriptionCache.of(keyId)).filter(({ id }) => (only ?? id) === id);
    return await this.#noted(keyId, (await this.#judged(subs.slice(0, MOST_ENDPOINTS))).flat());
  }

  /** Reads key after key: until there are `limit`, or as many as one answer looks at. */
  async ofKeys(
    after: string | undefined,
    limit: number,
  ): Promise<{ readonly items: readonly Noted[]; readonly next?: string | undefined }> {
    const keys: (readonly [keyId: string, subs: readonly Subscription[]])[] = [];
    let [count, more] = [0, false];
    const walk = after === undefined ? {} : { after: API_KEY.key({ keyId: after }) };
    for await (const { key } of everyEntry(this.#deps.storage, API_KEY.start, walk)) {
      more = count >= MOST_ENDPOINTS;
      if (more) break;
      const { keyId } = API_KEY.id(key);
      const subs = (await this.#deps.subscriptionCache.of(keyId)).slice(0, MOST_ENDPOINTS);
      keys.push([keyId, subs]);
      // A key without endpoints costs a read, too.
      count += Math.max(1, subs.length);
    }
    const found = await this.#judged(keys.flatMap(([, subs]) => subs));
    const items: Noted[] = [];
    let seen = 0;
    for (const [i, [keyId, subs]] of keys.entries()) {
      items.push(...(await this.#noted(keyId, found.slice(seen, (seen += subs.length)).flat())));
      if (items.length >= limit && (more || i < keys.length - 1)) return { items, next: keyId };
    }
    return { items, next: more ? keys.at(-1)?.[0] : undefined };
  }

  /** Judges the parts of this node, and notes since when each is not ready. */
  async ofParts(parts: Parts): Promise<readonly Noted[]> {
    const { clock } = this.#deps;
    const away = Object.entries(parts).filter(([name, { ready }]) => name !== "relay" && !ready);
    for (const name of this.#since.keys()) if (!away.some(([one]) => one === name)) this.#since.delete(name);
    const items = away.map(([name, { state = "", required = true }]) => {
      const since = this.#since.get(name) ?? clock.now();
      this.#since.set(name, since);
      return { ...partAttention(name, state, required, since), about: `${name}${NODE}` };
    });
    return await this.#noted(WHOLE_RELAY, items);
  }

  /**
   * Acknowledges one as it is now, or takes that back. @param from its key, or the parts of the relay
   * @returns false when there is none of this id any more. @throws Problem CONFLICT, StorageError
   */
  async acknowledge(from: string | Parts, id: string, wanted: boolean, actor: Actor): Promise<boolean> {
    const { storage, clock } = this.#deps;
    const all = typeof from === "string" ? this.ofKey(from, id.replace(/\..*/, "")) : this.ofParts(from);
    const item = (await all).find((one) => one.id === id);
    if (item === undefined) return false;
    const { about, state, marks, keyId } = item;
    await transact(storage, async (tx) => {
      const row = unlessDamaged((await tx.get(ATTENTION, item)) ?? NOTHING) ?? NOTHING;
      const told = row.told && { told: row.told };
      if (wanted) tx.put(ATTENTION, item, { marks, at: clock.now(), by: actor.sub, ...told });
      else tx.put(ATTENTION, item, { marks: [], ...told });
      const detail = wanted ? state : `${state}, taken back`;
      tx.add(auditChange(keyId, actor, clock, { action: "attention.acknowledged", target: about, detail }));
    });
    return true;
  }

  async #judged(subs: readonly Subscription[]): Promise<readonly (readonly Attention[])[]> {
    const now = this.#deps.clock.now();
    return subs.length === 0 ? [] : (await readFacts(this.#deps, subs)).map((facts) => endpointAttention(facts, now));
  }

  /** Adds what somebody has acknowledged. */
  async #noted(keyId: string, items: readonly Attention[]): Promise<readonly Noted[]> {
    if (items.length === 0) return [];
    const rows = await this.#deps.storage.getMany(items.map((item) => ATTENTION.key({ keyId, ...item })));
    const noted = items.map((item, i): Noted => {
      const { marks = [], at = 0, by = "" } = unlessDamaged(ATTENTION.read(rows[i])) ?? {};
      const stands = by !== "" && item.marks.every((mark) => marks.includes(mark));
      return { ...item, id: `${item.about}.${item.state}`, keyId, acknowledged: stands ? { at, by } : undefined };
    });
    return noted.toSorted(byWorst);
  }
}

const NOTHING: { readonly marks: readonly string[]; readonly told?: true } = { marks: [] };
/** What a node sees of its own parts is its own. */
const NODE = `@${hostname()}`;
export const isOfNode = (about: string): boolean => about.endsWith(NODE);
