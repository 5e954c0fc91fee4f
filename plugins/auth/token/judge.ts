/** Checks a bearer token step by step, from the header of a request to a principal. */
import { hash, type KeyObject } from "node:crypto";
import { setNewest } from "../../../core/lib/bounded-map.ts";
import type { Principal, Refusal } from "../../../core/ports/auth.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import { framedToken, isTyp, jsonObject, tokenHeader, type TokenHeader } from "./bearer.ts";
import { type ClaimRule, isTimely, judgeClaims, type JudgedClaims } from "./claims.ts";

interface TokenRule extends ClaimRule {
  /** Exactly these. */
  readonly algorithms: readonly string[];
  /** The required `typ`; absent: any. */
  readonly typ?: string;
}

/** Finds the key that must have signed a token, by its header; undefined refuses the token. */
type FindKey = (header: TokenHeader) => Promise<KeyObject | undefined>;

/** Returns the bytes that were signed; undefined when the signature is not the key's. */
type Verify = (token: string, key: KeyObject, alg: string) => Promise<Uint8Array | undefined>;

interface JudgeDeps {
  readonly rule: TokenRule;
  readonly findKey: FindKey;
  readonly verify: Verify;
  readonly clock: Clock;
}

type TokenJudge = (authorization: string | undefined) => Promise<Principal | Refusal>;

const refuse = (refused: string): Refusal => ({ refused });

/** Most verified tokens that are remembered, by hash, so that a busy client's is not verified at every request. */
const REMEMBERED = 5_000;
/** How long each is remembered, ms: so a withdrawn signing key soon counts no more. */
const REMEMBERED_MS = 60_000;

/** Never throws, whatever a client sends. */
export function tokenJudge({ rule, findKey, verify, clock }: JudgeDeps): TokenJudge {
  const verified = new Map<string, { readonly judged: JudgedClaims; readonly until: number }>();

  async function judge(token: string): Promise<JudgedClaims | Refusal> {
    const header = tokenHeader(token);
    if (header === undefined) return refuse("its header is not acceptable");
    if (!rule.algorithms.includes(header.alg)) return refuse("another algorithm");
    if (rule.typ !== undefined && !isTyp(header, rule.typ)) return refuse("another type of token");
    const key = await findKey(header);
    if (key === undefined) return refuse("no key of ours");
    const payload = await verify(token, key, header.alg);
    if (payload === undefined) return refuse("the signature is wrong");
    const claims = jsonObject(payload);
    return claims === undefined ? refuse("the payload is not a JSON object") : judgeClaims(claims, rule);
  }

  return async (authorization) => {
    const token = framedToken(authorization);
    if (token === undefined) return refuse("no bearer token");
    const name = hash("sha256", token, "base64url");
    const found = verified.get(name);
    const known = found !== undefined && clock.monotonic() < found.until ? found.judged : undefined;
    const judged = known ?? (await judge(token));
    if ("refused" in judged) return judged;
    if (!isTimely(judged.times, rule, clock.now())) return refuse("expired, too old or not yet valid");
    if (known === undefined)
      setNewest(verified, name, { judged, until: clock.monotonic() + REMEMBERED_MS }, REMEMBERED);
    return judged.principal;
  };
}

/** Verifies with jose, which is loaded when a plug-in is set up. */
export async function joseVerify(): Promise<Verify> {
  const { compactVerify } = await import("jose/jws/compact/verify");
  return async (token, key, alg) => {
    try {
      return (await compactVerify(token, key, { algorithms: [alg] })).payload;
    } catch {
      return undefined;
    }
  };
}
