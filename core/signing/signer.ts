/** Signs attempts with the secrets that are live at that moment; caches opened secrets, bounded. */
import { setNewest } from "../lib/bounded-map.ts";
import { clearUrl, clientKeyAad, clientSecretAad, type Credentials, openFor } from "../model/credentials.ts";
import { DamagedRecordError } from "../model/errors.ts";
import type { Signable } from "../model/attempt.ts";
import { mayStandBeside, type EventHeaders } from "../model/header-names.ts";
import { SUBSCRIPTION } from "../model/schema.ts";
import { headerAad, liveSecrets, secretAad, type Subscription } from "../model/subscription.ts";
import type { Clock } from "../ports/clock.ts";
import type { Keys } from "../ports/plugin.ts";
import { signedHeaders, type SignatureOptions } from "./headers.ts";
import { createOverlaps, type Ends } from "./overlaps.ts";
import { signingKey, type SigningKey } from "./secret.ts";

/** Returns a secret with and without its prefix, and as decoded bytes: a receiver may know it in each form. */
function spellings(secret: string): readonly string[] {
  const text = secret.replace(/^whsec_/, "");
  return [text, Buffer.from(text, "base64").toString("hex"), Buffer.from(text, "base64").toString("base64url")];
}

/** One in lower case, but for that which stands in the place of ours. */
const oneSpelling = (name: string): string => (/^accept$/i.test(name) ? "Accept" : name.toLowerCase());

/** How many subscriptions' opened keys are kept. */
const HELD = 10_000;

interface Opened {
  readonly sub: Subscription;
  readonly url: string;
  readonly keys: ReadonlyMap<number, SigningKey>;
  /** Nothing for a subscription without an overlap. */
  readonly ends: Ends | undefined;
  readonly extra: Readonly<Record<string, string>> | undefined;
  readonly hidden: readonly string[];
  readonly credentials: Credentials | undefined;
}

type Damaged = (error: DamagedRecordError) => void;

export class Signer {
  readonly #keys: Pick<Keys, "open">;
  readonly #clock: Pick<Clock, "monotonic">;
  readonly #options: SignatureOptions;
  readonly #damaged: Damaged | undefined;
  readonly #held = new Map<string, Opened>();
  readonly #overlaps: ReturnType<typeof createOverlaps>;
  readonly #repeated: ReadonlySet<string>;

  /**
   * @param options the same for every delivery
   * @param damaged is called with a subscription that holds a text which cannot be opened
   */
  constructor(
    { keys, clock }: { readonly keys: Pick<Keys, "open">; readonly clock: Pick<Clock, "now" | "monotonic"> },
    options: SignatureOptions = {},
    damaged?: Damaged,
  ) {
    this.#keys = keys;
    this.#clock = clock;
    this.#options = options;
    this.#damaged = damaged;
    this.#overlaps = createOverlaps(clock, HELD);
    this.#repeated = new Set(Object.keys(options.repeated ?? {}).map((name) => name.toLowerCase()));
  }

  /**
   * @param now epoch ms
   * @throws Error when a stored secret cannot be opened: a fault of ours, so the attempt must not be made
   */
  sign(sub: Subscription, event: Signable, now: number): Record<string, string> {
    const { ends, keys, extra } = this.#open(sub);
    let live = liveSecrets(sub, now);
    if (ends !== undefined)
      live = live.filter(({ version }) => (ends.get(version) ?? Infinity) > this.#clock.monotonic());
    const signing = live.map(({ version }) => keys.get(version) as SigningKey);
    const more = event.headers === undefined ? extra : { ...this.#sendable(event.headers), ...extra };
    return signedHeaders(event, signing, now, more, this.#options);
  }

  /** Leaves out what the config has taken for a header of the relay's own since the event was published. */
  #sendable(headers: EventHeaders): EventHeaders {
    const taken = (name: string): boolean => !mayStandBeside(name) || this.#repeated.has(name);
    return Object.fromEntries(Object.entries(headers).filter(([name]) => !taken(name)));
  }

  /** Notes that a secret was rotated a moment ago: the overlap is measured from here, whatever the wall clock does. */
  rotated(subscriptionId: string): void {
    this.#overlaps.rotated(subscriptionId);
  }

  /** Returns static header values and secrets in clear text, which are masked wherever people see a receiver's answer. */
  hidden(sub: Subscription): readonly string[] {
    return this.#open(sub).hidden;
  }

  /** Returns the credentials in clear, the same object until the subscription changes; `undefined` where it has none. */
  credentials(sub: Subscription): Credentials | undefined {
    return sub.clientCertificate === undefined && sub.oauth2 === undefined ? undefined : this.#open(sub).credentials;
  }

  /** Returns the URL in clear. @throws Error as `sign` */
  url(sub: Subscription): string {
    return this.#open(sub).url;
  }

  #open(sub: Subscription): Opened {
    const known = this.#held.get(sub.id);
    // The subscription cache returns one object per version of a record, so identity shows whether it changed.
    if (known?.sub === sub) return known;
    try {
      return this.#opened(sub, known);
    } catch (cause) {
      this.#damaged?.(new DamagedRecordError("subscription", "sealed", SUBSCRIPTION.key(sub), { cause }));
      throw cause;
    }
  }

  #opened(sub: Subscription, known: Opened | undefined): Opened {
    const secrets = sub.secrets.map(({ version, sealed }) => {
      const plain = openFor(this.#keys, sealed, secretAad(sub.keyId, sub.id, version), sub.url);
      return { version, plain, key: signingKey(plain) };
    });
    const extra = sub.headers && this.#openHeaders(sub, sub.headers);
    const credentials = this.#openCredentials(sub);
    const clientSecret = credentials?.oauth2?.clientSecret;
    const url = clearUrl(this.#keys, sub);
    const made: Opened = {
      sub,
      url,
      keys: new Map(secrets.map(({ version, key }) => [version, key])),
      ends: this.#overlaps.endsOf(sub, known?.ends),
      extra,
      hidden: [
        ...Object.values(extra ?? {}),
        ...secrets.flatMap(({ plain }) => spellings(plain)),
        ...(clientSecret === undefined ? [] : [clientSecret]),
        ...(sub.sealedUrl === undefined ? [] : [url]),
      ],
      credentials,
    };
    setNewest(this.#held, sub.id, made, HELD);
    return made;
  }

  #openCredentials({ keyId, id, url, clientCertificate, oauth2 }: Subscription): Credentials | undefined {
    if (clientCertificate === undefined && oauth2 === undefined) return undefined;
    const opened: { -readonly [Name in keyof Credentials]: Credentials[Name] } = {};
    if (clientCertificate !== undefined) {
      const { cert, sealedKey } = clientCertificate;
      opened.clientCertificate = { cert, key: openFor(this.#keys, sealedKey, clientKeyAad(keyId, id), url) };
    }
    if (oauth2 !== undefined) {
      const { sealedSecret, ...rest } = oauth2;
      const aad = clientSecretAad(keyId, id);
      opened.oauth2 = { ...rest, clientSecret: openFor(this.#keys, sealedSecret, aad, url, rest.tokenUrl) };
    }
    return opened;
  }

  #openHeaders(sub: Subscription, sealed: Readonly<Record<string, string>>): Record<string, string> {
    return Object.fromEntries(
      Object.entries(sealed)
        // An older record may contain a name that is reserved by now: its attempts could not be sent with it.
        .filter(([name]) => mayStandBeside(name) && !this.#repeated.has(name.toLowerCase()))
        .map(([name, value]) => [
          oneSpelling(name),
          openFor(this.#keys, value, headerAad(sub.keyId, sub.id, name), sub.url),
        ]),
    );
  }
}
