/** Defines the claims of the relay's own access tokens, for the code that issues them and the code that checks them. */
import { hash, timingSafeEqual } from "node:crypto";

export const OWN_ISSUER = "urn:relaybox";
export const OWN_AUDIENCE = "relaybox";
/** RFC 9068: keeps them apart from ID tokens of every kind. */
export const OWN_TYP = "at+jwt";

/** The rights of a caller: everything that its keys and factors allow, or only look. */
export type Access = "manage" | "read";
/** The claim that carries it. A token without it may manage. */
export const ACCESS_CLAIM = "api_access";

/** Reads the claim. A value that nobody knows is not taken for a permission: it may only read. */
export const accessOf = (claim: unknown): Access => (claim === undefined || claim === "manage" ? "manage" : "read");

interface OwnToken {
  readonly sub: string;
  /** Key ids, or `"*"` for all of them. */
  readonly keys: readonly string[] | "*";
  /** @default "manage" */
  readonly access?: Access;
  readonly amr: readonly string[];
  /** Epoch ms of the last real authentication; absent without one. */
  readonly authAt?: number;
  /** The session that the token ends with; absent when it ends by time alone. */
  readonly sessionId?: string;
}

/** Builds the claims of an own token, for `Keys.signToken`. @param now epoch ms */
export function ownClaims(token: OwnToken, now: number, ttlMs: number): Readonly<Record<string, unknown>> {
  const iat = Math.floor(now / 1_000);
  return {
    iss: OWN_ISSUER,
    aud: OWN_AUDIENCE,
    sub: token.sub,
    iat,
    exp: iat + Math.max(1, Math.floor(ttlMs / 1_000)),
    api_keys: token.keys === "*" ? ["*"] : token.keys,
    ...(token.access === "read" && { [ACCESS_CLAIM]: token.access }),
    amr: token.amr,
    ...(token.authAt === undefined ? {} : { auth_time: Math.floor(token.authAt / 1_000) }),
    ...(token.sessionId === undefined ? {} : { sid: token.sessionId }),
  };
}

export interface StepUpRule {
  /** `acr` values that prove a second factor. @default [] */
  readonly acr: readonly string[];
  /** `amr` values that prove a second factor. @default ["mfa"] */
  readonly amr: readonly string[];
  /** How long ago it may have been, in milliseconds. @default 300000 */
  readonly maxAgeMs: number;
}

/** How far an issuer's clock may be ahead of ours, seconds. */
const AHEAD_S = 30;

/**
 * True when the caller showed a second factor recently. The time of issue proves nothing, so `auth_time` decides.
 * @param now epoch ms
 */
export function isSteppedUp(
  principal: { readonly amr: readonly string[]; readonly acr?: string; readonly authTime?: number },
  rule: StepUpRule,
  now: number,
): boolean {
  const { amr, acr, authTime } = principal;
  const shown = amr.some((method) => rule.amr.includes(method)) || (acr !== undefined && rule.acr.includes(acr));
  if (!shown || authTime === undefined || !Number.isInteger(authTime)) return false;
  const nowS = now / 1_000;
  return authTime <= nowS + AHEAD_S && authTime >= Math.floor(nowS) - rule.maxAgeMs / 1_000;
}

/** Builds the challenge of RFC 9470 for `WWW-Authenticate`. */
export function stepUpChallenge(rule: StepUpRule): string {
  const acr = rule.acr.length > 0 ? rule.acr : rule.amr;
  return `Bearer error="insufficient_user_authentication", acr_values="${acr.join(" ")}", max_age="${Math.floor(rule.maxAgeMs / 1_000)}"`;
}

const BEARER = /^Bearer +(\S.*)$/i;

/** Returns what stands behind the scheme; `undefined` when another scheme, or nothing, is there. */
export const bearerToken = (authorization: string | undefined): string | undefined =>
  authorization === undefined ? undefined : BEARER.exec(authorization)?.[1]?.trimEnd();

/** Checks whether a header carries this token, by hashes of one length: the time taken reveals nothing. */
export function bearerCheck(token: string): (authorization: string | undefined) => boolean {
  const wanted = digest(token);
  return (authorization) => {
    const given = bearerToken(authorization);
    return given !== undefined && timingSafeEqual(digest(given), wanted);
  };
}

/** A shorter token can be guessed. */
const SHORT = 16;

/** Returns what is wrong with a token that can be guessed, as a warning; `undefined` when it cannot. */
export const guessable = (token: string): string | undefined =>
  token.length >= SHORT
    ? undefined
    : `has fewer than ${SHORT} characters and can be guessed; \`relay keys\` prints a safe one`;

const digest = (text: string): Buffer => hash("sha256", text, "buffer");
