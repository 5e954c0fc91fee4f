/** Checks the claims of a verified token: RFC 7519 with exact types, RFC 8725's advice, and our `api_keys` and `api_access`. */
import { isKeyId } from "../../../core/model/names.ts";
import { ACCESS_CLAIM, accessOf } from "../../../core/model/token.ts";
import type { Principal, Refusal } from "../../../core/ports/auth.ts";

export interface ClaimRule {
  readonly issuer: string;
  /** Any of these. */
  readonly audience: readonly string[];
  /** Longest age of a token, and longest life that its issuer may give it. */
  readonly maxTokenAgeMs: number;
  readonly clockToleranceMs: number;
  /** How far the clock of the issuer may be ahead, so that a token seems to be made later. @default clockToleranceMs */
  readonly aheadMs?: number;
}

/** Epoch seconds. */
interface TokenTimes {
  readonly iat: number;
  readonly exp: number;
  readonly nbf?: number;
}

export interface JudgedClaims {
  readonly principal: Principal;
  readonly times: TokenTimes;
}

const refuse = (refused: string): Refusal => ({ refused });

/** Checks everything except the passing of time, which `isTimely` checks on each use. */
export function judgeClaims(claims: Readonly<Record<string, unknown>>, rule: ClaimRule): JudgedClaims | Refusal {
  const { iss, aud, sub, iat, exp, nbf, sid } = claims;
  if (typeof sub !== "string" || sub === "") return refuse("sub is not text");
  if (iss !== rule.issuer) return refuse("another issuer");
  const audiences: unknown = typeof aud === "string" ? [aud] : aud;
  if (!Array.isArray(audiences) || !audiences.every((one) => typeof one === "string")) return refuse("no audience");
  if (!audiences.some((one) => rule.audience.includes(one as string))) return refuse("another audience");
  if (!isSeconds(iat) || !isSeconds(exp)) return refuse("iat and exp must be integers");
  if (nbf !== undefined && !isSeconds(nbf)) return refuse("nbf must be an integer");
  if ((exp - iat) * 1_000 > rule.maxTokenAgeMs) return refuse("lives too long");
  const { acr, auth_time: authTime } = claims;
  return {
    times: { iat, exp, ...(nbf === undefined ? {} : { nbf }) },
    principal: {
      sub,
      keys: ownedKeys(claims["api_keys"]),
      ...(accessOf(claims[ACCESS_CLAIM]) === "read" && { access: "read" }),
      amr: Array.isArray(claims["amr"]) ? claims["amr"].filter((one) => typeof one === "string") : [],
      ...(typeof acr === "string" ? { acr } : {}),
      ...(isSeconds(authTime) ? { authTime } : {}),
      expiresAt: exp * 1_000,
      ...(typeof sid === "string" ? { sessionId: sid } : {}),
    },
  };
}

/** @param now epoch ms */
export function isTimely({ iat, exp, nbf }: TokenTimes, rule: ClaimRule, now: number): boolean {
  const tolerance = rule.clockToleranceMs;
  return (
    now < exp * 1_000 + tolerance &&
    iat * 1_000 <= now + (rule.aheadMs ?? tolerance) &&
    now - iat * 1_000 <= rule.maxTokenAgeMs + tolerance &&
    (nbf === undefined || nbf * 1_000 <= now + tolerance)
  );
}

const isSeconds = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) > 0;

/** Returns key ids, or exactly `["*"]`; any other value owns nothing. */
function ownedKeys(value: unknown): readonly string[] | "*" {
  if (!Array.isArray(value)) return [];
  if (value.length === 1 && value[0] === "*") return "*";
  return value.every((one) => typeof one === "string" && isKeyId(one)) ? (value as string[]) : [];
}
