/** Says in words why something outside failed, with the code by which it can be looked up, and what to do next. */

/** By the code of an error: of a call of the operating system, of the network, or of TLS. */
const WORDS: Readonly<Record<string, string>> = {
  EACCES: "this user may not do that there",
  EPERM: "this user may not do that there",
  EADDRINUSE: "something else listens there",
  EADDRNOTAVAIL: "it is no address of this machine",
  EEXIST: "something else has that name",
  EISDIR: "it is a folder",
  EMFILE: "too many files are open",
  ENOENT: "there is no such file or folder",
  ENOSPC: "the disk is full",
  ENOTDIR: "a part of the path is no folder",
  EROFS: "the disk is read-only",
  ECONNREFUSED: "nothing listens there",
  ECONNRESET: "the connection was cut",
  EPIPE: "the connection was cut",
  UND_ERR_SOCKET: "the connection was cut",
  EHOSTUNREACH: "there is no way to it",
  ENETUNREACH: "there is no way to it",
  ETIMEDOUT: "nothing answers there",
  UND_ERR_CONNECT_TIMEOUT: "nothing answers there",
  ENOTFOUND: "its name is not known",
  EAI_AGAIN: "no name server answers",
  ERR_SSL_WRONG_VERSION_NUMBER: "it speaks no TLS",
  ERR_SSL_PACKET_LENGTH_TOO_LONG: "it speaks no TLS",
  CERT_HAS_EXPIRED: "its certificate has ended",
  CERT_NOT_YET_VALID: "its certificate is not valid yet",
  DEPTH_ZERO_SELF_SIGNED_CERT: "its certificate is not trusted here: it is self-signed",
  SELF_SIGNED_CERT_IN_CHAIN: "its certificate is not trusted here: nobody here knows its authority",
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: "its certificate is not trusted here: nobody here knows its authority",
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: "its certificate is not trusted here: the one that issued it is not sent along",
};

/** Says what a person does next, by the code and the words of the failure. The first that matches counts. */
const NEXT: readonly (readonly [failure: RegExp, next: string])[] = [
  [/ECONNREFUSED/, "see that it runs, and that host and port are right"],
  [/ENOTFOUND|EAI_AGAIN|DNS_/, "see that the name is right, and that the name servers of this machine know it"],
  [
    /ETIMEDOUT|TIMEOUT|UNREACH|tim(?:ed|e) ?out/i,
    "see that it runs, that no firewall stands between, and whether that port speaks TLS",
  ],
  [
    /WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG|wrong version number|no TLS|not support SSL/i,
    "see whether that port speaks TLS",
  ],
  [/UNABLE_TO_VERIFY_LEAF/, "install the whole chain there, with the intermediate certificates"],
  [/SELF_SIGNED|self-signed|UNABLE_TO_GET_ISSUER/, "give its authority as ca, or install a certificate of a known one"],
  [/CERT_HAS_EXPIRED|CERT_NOT_YET/, "renew it there, and see that the clocks are right"],
  [/ALTNAME_INVALID/, "use a name that it is for, or install one for this name"],
  [/protocol version|unsupported protocol/i, "let it speak TLS 1.2 or newer"],
  [/certificate (?:required|unknown)|bad certificate|unknown ca/i, "show a client certificate that it trusts"],
  [/handshake failure/i, "see whether it wants a client certificate, and which versions and ciphers it takes"],
  [
    /InvalidClientTokenId|InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|UnrecognizedClient|credentials from any/,
    "see that the access key and its secret are right, or give this machine a role",
  ],
  [/default credentials|invalid_grant|UNAUTHENTICATED/, "give the key of a service account, or this machine one"],
  [/Unable to detect a Project/, "give the option projectId, or set GOOGLE_CLOUD_PROJECT"],
  [/NOT_FOUND: /, "see that its name and the project are right, or make it"],
  [/NonExistentQueue|QueueDoesNotExist|NoSuchBucket/, "see that its name and the region are right, or make it"],
  [/Region is missing/, "give the option region, or set AWS_REGION"],
  [
    /NOAUTH|WRONGPASS|authenticat|authorization violation|SASL|password|credential|login/i,
    "see that user and password are right",
  ],
  [/NOPERM|authoriz|permission|access.refused|command denied/i, "give this user the right to do that"],
  [/ECONNRESET|closed|hang ?up|protocol error/i, "see whether that port speaks this protocol, in clear or over TLS"],
];

interface Fault {
  readonly code?: unknown;
  readonly message?: unknown;
  /** OpenSSL's own words. */
  readonly reason?: unknown;
  readonly address?: unknown;
  readonly port?: unknown;
  readonly cause?: unknown;
  readonly errors?: readonly unknown[];
  /** Of ioredis: what the last node of a cluster said. */
  readonly lastNodeError?: unknown;
}

const LONGEST = 400;

/** @returns `there is no such file or folder (ENOENT)`; the message of an error that is none of these */
export function reasonOf(error: unknown): string {
  const { code } = faultOf(error);
  const said = messageOf(error);
  // OpenSSL says it under several codes.
  const name = said === "wrong version number" ? "ERR_SSL_WRONG_VERSION_NUMBER" : code;
  const words = typeof name === "string" ? WORDS[name] : undefined;
  return words === undefined ? said : `${words} (${String(code)})`;
}

/**
 * Returns the words of what failed first, behind those that clients wrap it in, and what to do next:
 * `Connection to kafka-1:9092 failed: nothing listens there (ECONNREFUSED 10.0.0.7:9092): see that it runs, and …`. It may
 * name addresses: take them out (`withoutAddresses`) for those who are to learn none.
 */
export function causeOf(error: unknown): string {
  const chain = chainOf(error);
  const first = chain.at(-1);
  const { code, address, port } = faultOf(first);
  const place = typeof address === "string" ? ` ${address}:${String(port)})` : ")";
  const words: string[] = [];
  for (const wrapper of chain.slice(0, -1)) {
    const said = messageOf(wrapper);
    if (said !== "" && said !== "fetch failed" && !words.includes(said)) words.push(said);
  }
  const said = messageOf(first);
  // Wrapped by somebody who has said it already.
  if (!words.some((one) => said !== "" && one.includes(said))) words.push(reasonOf(first).replace(/\)$/, place));
  const next = nextStep(`${typeof code === "string" ? code : ""} ${words.join(" ")}`);
  return [words.join(": ").slice(0, LONGEST), next].filter((part) => part !== undefined).join(": ");
}

/** Returns the failure behind those that clients wrap it in. */
export const firstCause = (error: unknown): unknown => chainOf(error).at(-1);

/** @param failure its code and its words */
export const nextStep = (failure: string): string | undefined => NEXT.find(([pattern]) => pattern.test(failure))?.[1];

/** @returns `names a file that cannot be read (ENOENT): /etc/relay/ca.pem`, as a problem of the option that names the file */
export function unreadable(error: unknown, file: string): string {
  const { code = "unreadable" } = error as { readonly code?: string };
  return `names a file that cannot be read (${code}): ${file}`;
}

/** The error, and what it names as its cause: the first one where it names several. */
function chainOf(error: unknown): readonly unknown[] {
  const chain: unknown[] = [error];
  for (let at = error; chain.length < 8;) {
    const { errors, cause, lastNodeError } = faultOf(at);
    at = (Array.isArray(errors) ? errors[0] : undefined) ?? cause ?? lastNodeError;
    if (typeof at !== "object" || at === null || chain.includes(at)) break;
    chain.push(at);
  }
  return chain;
}

const faultOf = (error: unknown): Fault => (typeof error === "object" && error !== null ? error : { message: error });

/** Makes one line: OpenSSL's own messages carry thread ids, source files and line ends. */
function messageOf(error: unknown): string {
  const { reason, message, code } = faultOf(error);
  const own = typeof code === "string" && code.startsWith("ERR_SSL") ? reason : undefined;
  const said = [own, message, code].find((one) => typeof one === "string" && one !== "");
  const text = typeof said === "string" ? said : error instanceof Error ? error.name : String(error);
  const plain = /:SSL routines:[^:]*:([^:]+):/.exec(text)?.[1] ?? text;
  return plain.replaceAll(/\s+/g, " ").trim().replace(/[.:]$/, "").slice(0, LONGEST);
}
