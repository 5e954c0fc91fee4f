/** Makes keys of the limiter's counters: short and printable, whatever a token's `sub` or a caller's API key is. */
import { hash } from "node:crypto";

const LONGEST = 150;
const PRINTABLE = /^[\x20-\x7e]*$/;

/** Returns at most 200 bytes; one (endpoint, principal) always has the same key, and no two share one. */
export function counterKey(endpoint: string, principal: string): string {
  // A hashed principal starts with `#`, so one that starts like that itself is hashed too.
  if (principal.length + endpoint.length < LONGEST && !principal.startsWith("#") && PRINTABLE.test(principal))
    return `${endpoint} ${principal}`;
  const short = endpoint.length < LONGEST - 50 ? endpoint : `#${hash("sha256", endpoint, "base64url")}`;
  return `${short} #${hash("sha256", principal, "base64url")}`;
}

/** Returns the principal of an API key that nobody has verified: its hash, so that no counter or record contains the key. */
export const apiKeyPrincipal = (apiKey: string): string => `key ${hash("sha256", apiKey, "base64url")}`;
