/** Who is counted on `/v1`: a key that nobody has verified, and therefore the client's address as well. */
import { apiKeyPrincipal } from "../../limits/keys.ts";
import type { Caller } from "../../limits/limiter.ts";
import { addressGroup } from "../../model/address.ts";

/** An address may stand for many keys: an office, a carrier. */
const ADDRESS_FACTOR = 10;

export interface Credentials {
  /** The key's own header. */
  readonly key: string | undefined;
  /** The client's `Authorization`. */
  readonly authorization: string | undefined;
}

/**
 * The key in its header, else in `Authorization: Bearer`, hashed, at the row; the address at ten times the row. Without a
 * key the address stands for it.
 */
export function callersOf({ key, authorization }: Credentials, address: string): readonly Caller[] {
  const group = addressGroup(address);
  const own = key !== undefined && key !== "" ? key : /^Bearer +(\S.*)$/i.exec(authorization ?? "")?.[1];
  return [
    { principal: own === undefined ? `no key ${group}` : apiKeyPrincipal(own) },
    { principal: `address ${group}`, factor: ADDRESS_FACTOR },
  ];
}
