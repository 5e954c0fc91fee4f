/** Names the callers that the limits count on `/v1`: the key, and the address too, since nobody has verified the key. */
import { apiKeyPrincipal } from "../../limits/limit-keys.ts";
import type { Caller } from "../../limits/limiter.ts";
import { addressGroup } from "../../lib/address.ts";
import { bearerToken } from "../../model/token.ts";
import { Problem } from "../../model/problem.ts";
import { type Pairs, valuesOf } from "./headers.ts";

/** How many times the row an address may use: an office or a carrier shares one address. */
const ADDRESS_FACTOR = 10;

interface CallerNames {
  /** The key's own header. */
  readonly key: string | undefined;
  /** The client's `Authorization`. */
  readonly authorization: string | undefined;
}

/**
 * Reads what names the caller, as the upstream will read it.
 * @param keyHeader in lower case
 * @param authorizationHeader where the client's own `Authorization` stands, in lower case
 * @throws Problem VALIDATION_FAILED when one stands there twice: the upstream might look at the other one
 */
export function credentialsIn(pairs: Pairs, keyHeader: string, authorizationHeader: string): CallerNames {
  const one = (name: string): string | undefined => {
    const [first, second] = valuesOf(pairs, name);
    if (second !== undefined) throw new Problem("VALIDATION_FAILED", `Send one ${name} header.`);
    return first;
  };
  return { authorization: one(authorizationHeader), key: keyHeader === "authorization" ? undefined : one(keyHeader) };
}

/**
 * The key in its header, else in `Authorization: Bearer`, hashed, at the row; the address at ten times the row. Without a
 * key the address stands for it.
 */
export function callersOf({ key, authorization }: CallerNames, address: string): readonly Caller[] {
  const group = addressGroup(address);
  const own = key !== undefined && key !== "" ? key : bearerToken(authorization);
  return [
    { principal: own === undefined ? `no key ${group}` : apiKeyPrincipal(own) },
    { principal: `address ${group}`, factor: ADDRESS_FACTOR },
  ];
}
