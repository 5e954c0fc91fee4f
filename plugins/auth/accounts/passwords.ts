/** Hashes passwords with scrypt (RFC 7914): the same cost for known and unknown accounts, few at once. */
import { randomBytes, scrypt, timingSafeEqual } from "node:crypto";
import { type Asker, createTurns, RANKS } from "./turns.ts";

export const SHORTEST_PASSWORD = 12;
export const LONGEST_PASSWORD = 1_024;

export interface Passwords {
  hash(password: string): Promise<string>;
  /**
   * Takes as long without a hash as with one.
   * @param asker whose turn it takes. @default an operator's
   * @throws Problem PROVIDER_BACKPRESSURE when too many wait
   */
  verify(password: string, hash: string | undefined, asker?: Asker): Promise<boolean>;
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
/** Who hashes a new password has been let in already. */
const OPERATOR: Asker = { rank: RANKS.knownAddress, name: "operator" };

export function createPasswords(cost: Cost = COST): Passwords {
  const inTurn = createTurns();
  const derive = (password: string, salt: Buffer, { logN, r, p }: Cost, asker = OPERATOR): Promise<Buffer> =>
    inTurn(
      asker,
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
    async verify(password, hash, asker) {
      const known = hash === undefined ? undefined : parse(hash);
      const key = await derive(password, known?.salt ?? randomBytes(16), known?.cost ?? cost, asker);
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
