/** Signs attempts with the secrets that are live at that moment; opened secrets are kept in memory, bounded. */
import { setNewest } from "../model/bounded-map.ts";
import type { Signable } from "../model/signable.ts";
import { headerAad, liveSecrets, secretAad, type Subscription } from "../model/subscription.ts";
import type { Keys } from "../ports/plugin.ts";
import { mayStandBeside, signedHeaders } from "./headers.ts";
import { signingKey, type SigningKey } from "./secret.ts";

export interface Signer {
  /**
   * @param now epoch ms
   * @throws Error when a secret at rest cannot be opened: a fault of ours, the attempt must not be made
   */
  sign(sub: Subscription, event: Signable, now: number): Record<string, string>;
  /** Static header values and secrets in clear: they are masked wherever people see what a receiver answered. */
  hidden(sub: Subscription): readonly string[];
}

/** A receiver may well know its secret without the prefix, or as the bytes that it stands for. */
function spellings(secret: string): readonly string[] {
  const text = secret.replace(/^whsec_/, "");
  return [text, Buffer.from(text, "base64").toString("hex"), Buffer.from(text, "base64").toString("base64url")];
}

/** How many subscriptions' keys are held opened. */
const HELD = 10_000;

interface Opened {
  readonly sub: Subscription;
  readonly keys: ReadonlyMap<number, SigningKey>;
  readonly extra: Readonly<Record<string, string>> | undefined;
  readonly hidden: readonly string[];
}

export function createSigner(keys: Pick<Keys, "open">): Signer {
  const held = new Map<string, Opened>();

  function open(sub: Subscription): Opened {
    const known = held.get(sub.id);
    // The directory hands out one object per version of a record, so identity tells whether it changed.
    if (known?.sub === sub) return known;
    const secrets = sub.secrets.map(({ version, sealed }) => {
      const plain = keys.open(sealed, secretAad(sub.keyId, sub.id, version));
      return { version, plain, key: signingKey(plain) };
    });
    const extra = sub.headers && openHeaders(sub, sub.headers);
    const opened: Opened = {
      sub,
      keys: new Map(secrets.map(({ version, key }) => [version, key])),
      extra,
      hidden: [...Object.values(extra ?? {}), ...secrets.flatMap(({ plain }) => spellings(plain))],
    };
    setNewest(held, sub.id, opened, HELD);
    return opened;
  }

  const openHeaders = (sub: Subscription, sealed: Readonly<Record<string, string>>): Record<string, string> =>
    Object.fromEntries(
      Object.entries(sealed)
        // An older record may hold a name that is reserved by now: its attempts could not be sent with it.
        .filter(([name]) => mayStandBeside(name))
        .map(([name, value]) => [name.toLowerCase(), keys.open(value, headerAad(sub.keyId, sub.id, name))]),
    );

  return {
    sign(sub, event, now) {
      const opened = open(sub);
      const live = liveSecrets(sub, now).map((secret) => opened.keys.get(secret.version) as SigningKey);
      return signedHeaders(event, live, now, opened.extra);
    },
    hidden: (sub) => open(sub).hidden,
  };
}
