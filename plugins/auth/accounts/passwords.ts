/** Hashes passwords with scrypt (RFC 7914): the same cost for known and unknown accounts, few at once. */
import { randomBytes, scrypt, timingSafeEqual } from "node:crypto";
import { Problem } from "../../../core/model/problem.ts";

export const SHORTEST_PASSWORD = 12;
export const LONGEST_PASSWORD = 1_024;

export interface Passwords {
  hash(password: string): Promise<string>;
  /** Takes as long without a hash as with one. @throws Problem PROVIDER_BACKPRESSURE when too many wait */
  verify(password: string, hash: string | undefined): Promise<boolean>;
}

interface Cost {
  readonly logN: number;
  readonly r: number;
  readonly p: number;
}

/** OWASP's second choice: 32 MiB, about 200 ms of one core. */
const COST: Cost = { logN: 15, r: 8, p: 3 };
const LENGTH = 32;
const MAX_MEMORY = 256 * 1024 * 1024;
/** Each takes a thread of the pool that file access and name resolution need too. */
const AT_ONCE = 2;
const WAITING = 40;

export function createPasswords(cost: Cost = COST): Passwords {
  const gate = limitConcurrency(AT_ONCE, WAITING);
  const derive = (password: string, salt: Buffer, { logN, r, p }: Cost): Promise<Buffer> =>
    gate(
      () =>
        new Promise((resolve, reject) => {
          const options = { N: 2 ** logN, r, p, maxmem: MAX_MEMORY };
          scrypt(password.normalize("NFC"), salt, LENGTH, options, (error, key) =>
            error ? reject(error) : resolve(key),
          );
        }),
    );
  return {
    async hash(password) {
      const salt = randomBytes(16);
      const key = await derive(password, salt, cost);
      return ["scrypt", cost.logN, cost.r, cost.p, salt.toString("base64url"), key.toString("base64url")].join("$");
    },
    async verify(password, hash) {
      const known = hash === undefined ? undefined : parse(hash);
      const key = await derive(password, known?.salt ?? randomBytes(16), known?.cost ?? cost);
      return known !== undefined && key.length === known.key.length && timingSafeEqual(key, known.key);
    },
  };
}

function parse(hash: string): { readonly cost: Cost; readonly salt: Buffer; readonly key: Buffer } | undefined {
  const [kind, logN, r, p, salt, key] = hash.split("$");
  if (kind !== "scrypt" || salt === undefined || key === undefined) return undefined;
  return {
    cost: { logN: Number(logN), r: Number(r), p: Number(p) },
    salt: Buffer.from(salt, "base64url"),
    key: Buffer.from(key, "base64url"),
  };
}

/** Runs `most` at once; up to `waiting` more wait, the rest are refused. */
function limitConcurrency(most: number, waiting: number): <T>(work: () => Promise<T>) => Promise<T> {
  let inside = 0;
  const line: (() => void)[] = [];
  return async (work) => {
    if (inside >= most) {
      if (line.length >= waiting)
        throw new Problem("PROVIDER_BACKPRESSURE", "Too many logins at once. Try again soon.", { retryAfter: 5 });
      // The one that leaves passes its place on, so `inside` stays the same.
      await new Promise<void>((enter) => void line.push(enter));
    } else inside++;
    try {
      return await work();
    } finally {
      const next = line.shift();
      if (next === undefined) inside--;
      else next();
    }
  };
}
