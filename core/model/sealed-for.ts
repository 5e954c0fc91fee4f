/** Binds what a subscription holds sealed to the origins that it is for: a changed URL opens nothing. */

interface Opens {
  open(sealed: string, aad: string): string;
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
