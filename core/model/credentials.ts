/**
 * Credentials, by which a subscription proves itself to its receiver: a client certificate, or tokens of an OAuth 2 server. Binds
 * what a subscription holds sealed to the origins that it is for: a changed URL opens nothing.
 */
import { createPrivateKey, hash, X509Certificate } from "node:crypto";
import { OPERATOR_KEY } from "./names.ts";

/** The part of a certificate that people may see. */
interface CertificateFacts {
  /** `CN=client,O=Bank`, in one line. */
  readonly subject: string;
  /** SHA-256 of the certificate, in hex with colons. */
  readonly fingerprint: string;
  /** Epoch ms at which it ends. */
  readonly notAfter: number;
}

/** A client certificate at rest. Its facts are what people see of it. */
export interface StoredClientCertificate extends CertificateFacts {
  /** PEM: the certificate first, those that issued it after it. It is no secret. */
  readonly cert: string;
  readonly sealedKey: string;
}

/** OAuth 2 client credentials (RFC 6749, 4.4) at rest. */
export interface StoredOauth2 {
  readonly tokenUrl: string;
  readonly clientId: string;
  readonly sealedSecret: string;
  readonly scope?: string;
  readonly audience?: string;
}

/** A client certificate and its key, PEM. */
export interface ClientCertificate {
  readonly cert: string;
  readonly key: string;
}

/** OAuth 2 client credentials in clear. */
export interface Oauth2 extends Omit<StoredOauth2, "sealedSecret"> {
  readonly clientSecret: string;
}

/** The credentials of a subscription in clear. */
export interface Credentials {
  readonly clientCertificate?: ClientCertificate;
  readonly oauth2?: Oauth2;
}

/** AAD of the sealed key of a client certificate. */
export const clientKeyAad = (keyId: string, subscriptionId: string): string => `client-key:${keyId}:${subscriptionId}`;

export const clientSecretAad = (keyId: string, subscriptionId: string): string => `oauth2:${keyId}:${subscriptionId}`;

const BLOCK = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** Longest RSA key: it signs in 5 ms, one of 8192 bits in 65 ms, in which the relay does nothing else. */
const LONGEST_BITS = 4_096;

/** Returns the certificates of a text, in their order. @throws Error when one cannot be read */
export const certificatesOf = (pem: string): readonly X509Certificate[] =>
  (pem.match(BLOCK) ?? []).map((block) => new X509Certificate(block));

/** Returns what is wrong with a text that should hold certificates, or nothing. */
export function certificatesProblem(pem: string): string | undefined {
  try {
    return certificatesOf(pem).length === 0 ? "holds no PEM certificate" : undefined;
  } catch {
    return "holds a certificate that cannot be read";
  }
}

/**
 * Returns what is wrong with a client certificate and its key, or nothing.
 * @param cert the certificate first, those that issued it after it
 */
export function keyPairProblem(
  cert: string,
  key: string,
): { readonly of: "cert" | "key"; readonly message: string } | undefined {
  const wrong = certificatesProblem(cert);
  if (wrong !== undefined) return { of: "cert", message: wrong };
  if (/-----BEGIN ENCRYPTED|Proc-Type: 4,ENCRYPTED/.test(key))
    return { of: "key", message: "is encrypted: give it without a passphrase" };
  try {
    const [leaf] = certificatesOf(cert);
    // A date that no calendar has is no time to show, and no time at which it ends.
    if (Number.isNaN(Date.parse(leaf?.validTo ?? "")))
      return { of: "cert", message: "states no time at which it ends" };
    const given = createPrivateKey(key);
    if ((given.asymmetricKeyDetails?.modulusLength ?? 0) > LONGEST_BITS)
      return { of: "key", message: `has more than ${LONGEST_BITS} bits` };
    if (leaf?.checkPrivateKey(given) === true) return undefined;
    return { of: "key", message: "is not the key of the certificate" };
  } catch {
    return { of: "key", message: "is no PEM private key" };
  }
}

/** @param cert a text with at least one certificate: the first one is described */
export function certificateFacts(cert: string): CertificateFacts {
  const [leaf] = certificatesOf(cert);
  if (leaf === undefined) throw new Error("there is no certificate to describe");
  return {
    subject: (leaf.subject ?? "").replaceAll("\n", ","),
    fingerprint: leaf.fingerprint256,
    notAfter: Date.parse(leaf.validTo),
  };
}

interface Opens {
  open(sealed: string, aad: string): string;
}
interface Seals {
  seal(plain: string, aad: string): string;
}

/** A subscription's URL as it is stored. */
export interface StoredUrl {
  /** Where it is sealed, its origin with a hash of it. */
  readonly url: string;
  /** Set on the operator's key: the URL of a chat is a secret, which readers must not see. */
  readonly sealedUrl?: string;
}
interface Place {
  readonly keyId: string;
  readonly id: string;
}

/** Returns scheme, host and port: for schemes other than http(s) `URL.origin` is always "null". */
export const originOf = (url: string): string | undefined => {
  const parsed = URL.parse(url);
  return parsed ? `${parsed.protocol}//${parsed.host}` : undefined;
};

/** Returns the AAD of a text that may go to these URLs' origins alone. @param aad its place */
export const sealedFor = (aad: string, ...urls: readonly string[]): string =>
  [aad, ...urls.map((url) => originOf(url) ?? url)].join(" for ");

/** Opens a sealed text. Version 0.1.0 bound it to its place only. @throws Error when no key opens it there */
export function openFor(keys: Opens, sealed: string, aad: string, ...urls: readonly string[]): string {
  try {
    return keys.open(sealed, sealedFor(aad, ...urls));
  } catch {
    return keys.open(sealed, aad);
  }
}

export const urlAad = ({ keyId, id }: Place): string => `url:${keyId}:${id}`;

/** Returns what stands in the place of a URL that is sealed: one URL has always the same. */
export const maskedUrl = (url: string): string =>
  `${originOf(url) ?? ""}/sealed-${hash("sha256", url, "hex").slice(0, 16)}`;

/** Returns what is to be stored of a URL. */
export function storedUrl(keys: Seals, place: Place, url: string): StoredUrl {
  if (place.keyId !== OPERATOR_KEY) return { url };
  return { url: maskedUrl(url), sealedUrl: keys.seal(url, sealedFor(urlAad(place), url)) };
}

/** Returns the URL in clear. @throws Error when no key opens it there */
export const clearUrl = (keys: Opens, sub: Place & StoredUrl): string =>
  sub.sealedUrl === undefined ? sub.url : openFor(keys, sub.sealedUrl, urlAad(sub), sub.url);
