/** Says in words why a relay could not be asked, with the code by which that can be looked up. */

const UNTRUSTED = "its certificate is not trusted here";
const NO_TLS = "it speaks no TLS";
const WORDS: Readonly<Record<string, string>> = {
  ECONNREFUSED: "nothing listens there",
  ECONNRESET: "the connection was cut",
  UND_ERR_SOCKET: "the connection was cut",
  EHOSTUNREACH: "there is no way to it",
  ENETUNREACH: "there is no way to it",
  ETIMEDOUT: "nothing answers there",
  UND_ERR_CONNECT_TIMEOUT: "nothing answers there",
  ENOTFOUND: "its name is not known",
  EAI_AGAIN: "no name server answers",
  EPROTO: NO_TLS,
  ERR_SSL_WRONG_VERSION_NUMBER: NO_TLS,
  CERT_HAS_EXPIRED: "its certificate has ended",
  ERR_TLS_CERT_ALTNAME_INVALID: "its certificate is for another name",
  DEPTH_ZERO_SELF_SIGNED_CERT: UNTRUSTED,
  SELF_SIGNED_CERT_IN_CHAIN: UNTRUSTED,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: UNTRUSTED,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: UNTRUSTED,
};

/** @returns `nothing listens there (ECONNREFUSED)`; the code, or the message, of an error that is none of these */
export function networkReason(error: unknown): string {
  let at = error;
  while (at instanceof Error && at.cause instanceof Error) at = at.cause;
  // The code of a DOMException is a number.
  const { code, message = String(at) } = at as { readonly code?: unknown; readonly message?: string };
  if (typeof code !== "string") return message;
  const words = WORDS[code];
  return words === undefined ? code : `${words} (${code})`;
}
