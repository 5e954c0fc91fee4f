/** Holds the public keys of an issuer, by `kid`: a fixed set, or one that is fetched. */
import type { KeyObject } from "node:crypto";
import { jsonObject, type TokenHeader } from "../token/bearer.ts";
import type { PluginContext } from "../../../core/ports/plugin.ts";
import { fitsAlgorithm, publicKeyOf } from "./options.ts";

export interface KeySet {
  find(header: TokenHeader): Promise<KeyObject | undefined>;
  ready(): boolean;
}

interface Named {
  readonly kid?: string;
  readonly alg?: string;
  readonly key: KeyObject;
}

/** Most keys that are read of an issuer. */
const MOST_KEYS = 100;
/** Age at which keys are fetched again, in the background, ms. */
const FRESH_MS = 600_000;
/** An unknown `kid`, or a set without keys, leads to a fetch no sooner than this after the last one, ms. */
const UNKNOWN_MS = 30_000;
const EMPTY_MS = 5_000;
const TIMEOUT_MS = 5_000;
const MAX_BYTES = 65_536;

/** Returns a set of one key: any `kid` may name it, unless it has a name of its own. */
export function singleKey(key: KeyObject, kid?: string): KeySet {
  return {
    find: ({ alg, kid: asked }) =>
      Promise.resolve(
        fitsAlgorithm(key, alg) && (kid === undefined || asked === undefined || asked === kid) ? key : undefined,
      ),
    ready: () => true,
  };
}

export function fixedKeys(jwks: readonly unknown[]): KeySet {
  const keys = usable(jwks);
  return { find: (header) => Promise.resolve(pick(keys, header)), ready: () => keys.length > 0 };
}

/** Fetches the keys of a JWKS URL. They stay in use while the issuer cannot be reached, and until its answer has others. */
export function fetchedKeys(url: string, ctx: Pick<PluginContext, "fetch" | "clock" | "log">): KeySet {
  const { clock, log } = ctx;
  let keys: readonly Named[] = [];
  let askedAt = Number.NEGATIVE_INFINITY;
  let asking: Promise<void> | undefined;

  async function ask(): Promise<void> {
    try {
      const options = { timeoutMs: TIMEOUT_MS, maxBytes: MAX_BYTES, headers: { accept: "application/json" } };
      const { status, text } = await ctx.fetch(url, options);
      if (status !== 200) throw new Error(`it answered ${status}`);
      const list = jsonObject(Buffer.from(text))?.["keys"];
      const found = Array.isArray(list) ? usable(list) : [];
      if (found.length === 0) throw new Error("it contains no public key that the relay can use");
      keys = found;
    } catch (error) {
      log.warn("the issuer's keys could not be fetched", { url, error: (error as Error).message, keys: keys.length });
    }
  }

  /** Fetches, unless a fetch is under way or ended less than `afterMs` ago. Never rejects. */
  function refresh(afterMs: number): Promise<void> {
    if (asking === undefined && clock.monotonic() - askedAt >= afterMs) {
      askedAt = clock.monotonic();
      asking = ask().finally(() => {
        asking = undefined;
      });
    }
    return asking ?? Promise.resolve();
  }

  void refresh(0);
  return {
    async find(header) {
      if (keys.length === 0) await refresh(EMPTY_MS);
      const found = pick(keys, header);
      if (found === undefined) {
        await refresh(keys.length === 0 ? EMPTY_MS : UNKNOWN_MS);
        return pick(keys, header);
      }
      void refresh(FRESH_MS);
      return found;
    },
    ready() {
      if (keys.length === 0) void refresh(EMPTY_MS);
      return keys.length > 0;
    },
  };
}

/** A token without `kid` is accepted only where a single key fits. */
function pick(keys: readonly Named[], { alg, kid }: TokenHeader): KeyObject | undefined {
  const fitting = keys.filter((one) => (one.alg === undefined || one.alg === alg) && fitsAlgorithm(one.key, alg));
  if (kid !== undefined) return fitting.find((one) => one.kid === kid)?.key;
  return fitting.length === 1 ? fitting[0]?.key : undefined;
}

function usable(jwks: readonly unknown[]): readonly Named[] {
  const found: Named[] = [];
  for (const jwk of jwks.slice(0, MOST_KEYS)) {
    const key = publicKeyOf(jwk);
    if (key === undefined) continue;
    const { kid, alg, use } = jwk as Readonly<Record<string, unknown>>;
    if (use !== undefined && use !== "sig") continue;
    const named = { ...(typeof kid === "string" ? { kid } : {}), ...(typeof alg === "string" ? { alg } : {}) };
    found.push({ ...named, key });
  }
  return found;
}
