/** Judges a signing secret that a caller brings along, such as one that a receiver already holds. */

/** A secret's first part, as Standard Webhooks writes it. */
export const SECRET_PREFIX = "whsec_";
/** The form of a secret. `secretProblem` judges the length of its bytes too. */
export const SECRET_FORM = /^whsec_(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
/** Bytes after decoding: the bounds of Standard Webhooks. */
const SECRET_BYTES = { min: 24, max: 64 } as const;
/** Characters of the longest secret. */
export const LONGEST_SECRET = SECRET_PREFIX.length + 4 * Math.ceil(SECRET_BYTES.max / 3);
/** 24 random bytes have fewer different ones in one of 10^27 cases: such bytes repeat a word or are all the same. */
const LEAST_DIFFERENT = 8;

const FIX = "such as whsec_ and what this prints: openssl rand -base64 32";

/**
 * Says what is wrong with a secret and how to mend it, without repeating any of it; `undefined` when it may be used.
 * Only one spelling of the same bytes is taken, because the whole text is the key of the hex signature.
 */
export function secretProblem(secret: string): string | undefined {
  const encoded = secret.slice(SECRET_PREFIX.length);
  const bytes = Buffer.from(encoded, "base64");
  if (!SECRET_FORM.test(secret) || bytes.toString("base64") !== encoded)
    return `must be whsec_ and then base64 with its padding (=), ${FIX}`;
  const { min, max } = SECRET_BYTES;
  if (bytes.length < min || bytes.length > max)
    return `must hold ${min} to ${max} bytes after decoding, and holds ${bytes.length}: give one ${FIX}`;
  if (new Set(bytes).size < LEAST_DIFFERENT) return `is easy to guess, because its bytes repeat: give one ${FIX}`;
  return undefined;
}
