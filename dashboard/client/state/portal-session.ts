/**
 * Takes a portal link: its token stands behind the `#` of the address, which no server and no log sees. It is moved into
 * the memory of the page at once, so that neither the address nor the history keeps it.
 */
import { openAt, stay } from "./route.ts";
import { readToken, token } from "./token.ts";

const LINK = /^#link=([\w-]+\.[\w-]+\.[\w-]+)$/;

/** Returns whether the address has a link that still opens something. Without one, nothing changes. */
export function takeLink(): "taken" | "expired" | "none" {
  const text = LINK.exec(location.hash)?.[1];
  if (text === undefined) return "none";
  const read = readToken(text);
  const [keyId] = read?.keys ?? [];
  // A fresh link for what is open: who is at work goes on where they are.
  if (keyId !== undefined && token.now?.keys[0] === keyId) stay();
  else openAt(keyId === undefined ? [] : ["k", keyId, "overview"]);
  // Whether it has expired is for the relay to say: its clock may not be the browser's.
  if (read === undefined || keyId === undefined) return "expired";
  // There is nothing to renew it with.
  token.set({ ...read, renewAt: read.expiresAt });
  return "taken";
}
