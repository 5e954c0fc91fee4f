/** Signs attempts with the secrets that are live at that moment; opened secrets are kept in memory, bounded. */
import type { Signable } from "../model/signable.ts";
import { headerAad, liveSecrets, secretAad, type Subscription } from "../model/subscription.ts";
import type { Keys } from "../ports/plugin.ts";
import { signedHeaders } from "./headers.ts";
import { signingKey, type SigningKey } from "./secret.ts";

export interface Signer {
  /**
   * @param now epoch ms
   * @throws Error when a secret at rest cannot be opened: a fault of ours, the attempt must not be made
   */
  sign(sub: Subscription, event: Signable, now: number): Record<string, string>;
  /** The subscription's static header values in clear: they are masked wherever people see what a receiver answered. */
  hidden(sub: Subscription): readonly string[];
}

/** How many subscriptions' keys are held opened. */
const HELD = 10_000;
const NONE: readonly string[] = [];

interface Opened {
  readonly sub: Subscription;
  readonly keys: ReadonlyMap<number, SigningKey>;
  readonly extra: Readonly<Record<string, string>> | undefined;
}

export function createSigner(keys: Pick<Keys, "open">): Signer {
  const held = new Map<string, Opened>();

  function open(sub: Subscription): Opened {
    const known = held.get(sub.id);
    // The directory hands out one object per version of a record, so identity tells whether it changed.
    if (known?.sub === sub) return known;
    const opened: Opened = {
      sub,
      keys: new Map(
        sub.secrets.map((secret) => [
          secret.version,
          signingKey(keys.open(secret.sealed, secretAad(sub.keyId, sub.id, secret.version))),
        ]),
      ),
      extra: sub.headers && openHeaders(sub, sub.headers),
    };
    if (held.size >= HELD) held.delete(held.keys().next().value as string);
    held.delete(sub.id);
    held.set(sub.id, opened);
    return opened;
  }

  const openHeaders = (sub: Subscription, sealed: Readonly<Record<string, string>>): Record<string, string> =>
    Object.fromEntries(
      Object.entries(sealed).map(([name, value]) => [
        name.toLowerCase(),
        keys.open(value, headerAad(sub.keyId, sub.id, name)),
      ]),
    );

  return {
    sign(sub, event, now) {
      const opened = open(sub);
      const live = liveSecrets(sub, now).map((secret) => opened.keys.get(secret.version) as SigningKey);
      return signedHeaders(event, live, now, opened.extra);
    },
    hidden: (sub) => (sub.headers === undefined ? NONE : Object.values(open(sub).extra ?? {})),
  };
}
