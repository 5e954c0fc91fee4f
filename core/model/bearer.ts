/** Reads Bearer tokens out of `Authorization` headers, and checks one that is fixed in the configuration. */
import { hash, timingSafeEqual } from "node:crypto";

const BEARER = /^Bearer +(\S.*)$/i;

/** Returns what stands behind the scheme; `undefined` when another scheme, or nothing, is there. */
export const bearerToken = (authorization: string | undefined): string | undefined =>
  authorization === undefined ? undefined : BEARER.exec(authorization)?.[1]?.trimEnd();

/**
 * Returns a check of whether a header carries this token. It compares hashes, which have one length: the time that it
 * takes reveals nothing of the token.
 */
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
