/** Seals secrets, header values and credentials with a new master key while the relay runs: one subscription per commit. */
import { Problem } from "../model/problem.ts";
import { clientKeyAad, clientSecretAad, openFor, sealedFor, urlAad } from "../model/credentials.ts";
import { SUBSCRIPTION } from "../model/schema.ts";
import { headerAad, isLive, secretAad, type Subscription } from "../model/subscription.ts";
import type { Keys } from "../ports/plugin.ts";
import type { Storage } from "../ports/storage.ts";
import { createRevising } from "./revise.ts";
import { everyEntry } from "../records/every-entry.ts";
import { isOutline, readSubscription } from "../records/subscription-record.ts";

interface Resealing extends Pick<Keys, "seal" | "open"> {
  /** True when the current master key sealed it. @throws Error when none of the keys did */
  isCurrent(sealed: string, aad: string): boolean;
}

interface Resealed {
  /** Subscriptions whose texts were sealed again. */
  readonly sealed: number;
  /** Ids of subscriptions with a text that no key opens. */
  readonly unreadable: readonly string[];
}

/** Goes over all subscriptions once. Skips what the current key sealed, so it may be repeated. */
type Reseal = (signal: AbortSignal) => Promise<Resealed>;

function isCurrent(keys: Resealing, sealed: string, aad: string): boolean {
  try {
    return keys.isCurrent(sealed, aad);
  } catch {
    return false;
  }
}

export function createReseal(
  storage: Pick<Storage, "getItem" | "getMany" | "commit" | "range">,
  keys: Resealing,
): Reseal {
  const { revise } = createRevising(storage);
  /**
   * Returns the subscription with its texts sealed again; `undefined`: nothing to do. @throws Error when a text cannot
   * be opened
   */
  function resealed(sub: Subscription): Subscription | undefined {
    let changed = false;
    const again = (sealed: string, aad: string, ...urls: readonly string[]): string => {
      const bound = sealedFor(aad, ...urls);
      if ([bound, aad].some((one) => isCurrent(keys, sealed, one))) return sealed;
      changed = true;
      return keys.seal(openFor(keys, sealed, aad, ...urls), bound);
    };
    const { id, keyId, url, headers, clientCertificate, oauth2 } = sub;
    const secrets = sub.secrets.map((one) => ({
      ...one,
      sealed: again(one.sealed, secretAad(keyId, id, one.version), url),
    }));
    const values = Object.entries(headers ?? {}).map(([name, value]) => [
      name,
      again(value, headerAad(keyId, id, name), url),
    ]);
    const sealedKey = clientCertificate && again(clientCertificate.sealedKey, clientKeyAad(keyId, id), url);
    const sealedSecret = oauth2 && again(oauth2.sealedSecret, clientSecretAad(keyId, id), url, oauth2.tokenUrl);
    const sealedUrl = sub.sealedUrl && again(sub.sealedUrl, urlAad(sub), url);
    if (!changed) return undefined;
    return {
      ...sub,
      ...(sealedUrl !== undefined && { sealedUrl }),
      secrets,
      ...(headers && { headers: Object.fromEntries(values) as Record<string, string> }),
      ...(clientCertificate && sealedKey && { clientCertificate: { ...clientCertificate, sealedKey } }),
      ...(oauth2 && sealedSecret && { oauth2: { ...oauth2, sealedSecret } }),
    };
  }

  async function one(sub: Subscription): Promise<"sealed" | "current" | "unreadable"> {
    try {
      if (resealed(sub) === undefined) return "current";
    } catch {
      return "unreadable";
    }
    try {
      const { was, next } = await revise(sub.keyId, sub.id, (now) => {
        const made = resealed(now);
        return made && { next: made, more: [] };
      });
      return was === next ? "current" : "sealed";
    } catch (error) {
      // Deleted meanwhile, and its secrets with it.
      if (error instanceof Problem && error.code === "NOT_FOUND") return "current";
      throw error;
    }
  }

  return async (signal) => {
    let sealed = 0;
    const unreadable: string[] = [];
    for await (const { key, value } of everyEntry(storage, SUBSCRIPTION.start)) {
      signal.throwIfAborted();
      const sub = readSubscription(value, key);
      if (!isLive(sub)) continue;
      const came = isOutline(sub) ? "unreadable" : await one(sub);
      if (came === "sealed") sealed++;
      if (came === "unreadable") unreadable.push(sub.id);
    }
    return { sealed, unreadable };
  };
}
