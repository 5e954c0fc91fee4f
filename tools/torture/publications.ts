// Makes the publications of a torture: single events, arrays and NDJSON, small and large, under ids of the publisher's own,
// under an Idempotency-Key, or under neither.
import type { Random } from "./random.ts";

export interface Published {
  readonly ref: string;
  readonly keyId: string;
  readonly type: string;
  readonly data: string;
  /** The publisher's own. */
  readonly id?: string;
  /** Ids that a 202 named. */
  readonly accepted: Set<string>;
  /** When a 202 named it first, ms of `performance.now()`. */
  acceptedAt?: number;
  /** Requests that had it. */
  asks: number;
  /** It may have been stored without an answer. */
  open: boolean;
}

/** One request, the same bytes each time. */
export interface Publication {
  readonly events: readonly Published[];
  readonly contentType: string;
  readonly body: string;
  /** Sent as Idempotency-Key. */
  readonly key?: string;
}

/** Events of a key go to its subscriptions of that type. */
export interface Kind {
  readonly keyId: string;
  readonly type: string;
}

export interface Publications {
  /** By ref, which stands in the data. */
  readonly ledger: ReadonlyMap<string, Published>;
  /** A request of any kind. */
  any(): Publication;
  /** One small event. */
  one(kind: Kind): Publication;
  /** The request that may be repeated after an unknown outcome without making a second event; undefined when none may. */
  again(publication: Publication): Publication | undefined;
}

const ODD = ["1.0", "12345678901234567890", '"\\u0041"', "[1, 2]", '{"a":1,"a":2}', '"é\u{1f600}"', "null"];
/** An event's text and a request's, at most. */
const EVENT_BYTES = 262_144;
const BATCH_BYTES = 8 * 1_048_576;
/** Left for what stands around the padding. */
const HEAD_BYTES = 400;

export interface PublicationOptions {
  readonly random: Random;
  /** Kinds of events in ordinary requests. */
  readonly kinds: readonly Kind[];
  /** A kind that goes to very many subscriptions. */
  readonly wide: Kind;
  readonly mostAtOnce: number;
  /** Bytes of large events in all: what is stored under torture must fit. */
  readonly largeBytes: number;
}

export function publications({ random, kinds, wide, mostAtOnce, largeBytes }: PublicationOptions): Publications {
  const ledger = new Map<string, Published>();
  let refs = 0;
  let large = largeBytes;

  function make({ keyId, type }: Kind, pad: number, mayOwn: boolean): Published {
    const ref = `r${refs++}`;
    const data = `{"ref":"${ref}","x":${random.pick(ODD)},"pad":"${"x".repeat(pad)}"}`;
    const id = mayOwn && random.chance(0.6) ? `o:${ref}` : undefined;
    const event: Published = { ref, keyId, type, data, id, accepted: new Set(), asks: 0, open: false };
    ledger.set(ref, event);
    return event;
  }

  /** Spends from what large events may take in all. */
  function afford(bytes: number): boolean {
    if (bytes > large) return false;
    large -= bytes;
    return true;
  }

  function events(): readonly Published[] {
    const dice = random.next();
    if (dice < 0.01) return [make(wide, random.int(0, 600), true)];
    if (dice < 0.02) {
      const pad = random.int(20_000, EVENT_BYTES - HEAD_BYTES);
      if (afford(3 * pad)) return [make(random.pick(kinds), pad, true)];
    }
    if (dice > 0.9995 && afford(3 * BATCH_BYTES)) {
      const count = Math.floor(BATCH_BYTES / EVENT_BYTES);
      return Array.from({ length: count }, () => make(random.pick(kinds), EVENT_BYTES - HEAD_BYTES, true));
    }
    const count = random.int(1, mostAtOnce);
    const owned = random.chance(0.7);
    return Array.from({ length: count }, () => make(random.pick(kinds), random.int(0, 600), owned));
  }

  function publication(made: readonly Published[], form: string, key: string | undefined): Publication {
    const texts = made.map(textOf);
    if (form === "ndjson")
      return { events: made, contentType: "application/x-ndjson", body: `${texts.join("\n")}\n`, key };
    const body = form === "single" && texts.length === 1 ? (texts[0] as string) : `[${texts.join(",")}]`;
    return { events: made, contentType: "application/json", body, key };
  }

  return {
    ledger,
    any() {
      const made = events();
      const key = random.chance(0.3) ? `k-${(made[0] as Published).ref}` : undefined;
      return publication(made, random.pick(["ndjson", "ndjson", "array", "single"]), key);
    },
    one: (kind) => publication([make(kind, 0, false)], "single", `k-r${refs - 1}`),
    again(before) {
      if (before.key !== undefined) return before;
      const own = before.events.filter(({ id }) => id !== undefined);
      return own.length === 0 ? undefined : publication(own, "ndjson", undefined);
    },
  };
}

function textOf({ id, type, keyId, data }: Published): string {
  return `{${id === undefined ? "" : `"id":"${id}",`}"type":"${type}","keyId":"${keyId}","data":${data}}`;
}
