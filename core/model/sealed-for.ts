/** Binds what a subscription holds sealed to the origins that it is for: a changed URL opens nothing. */
import { hash } from "node:crypto";
import { OPERATOR_KEY } from "./names.ts";

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

/** AAD of a sealed URL. */
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
