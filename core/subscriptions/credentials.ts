/** Checks and seals the credentials of a subscription: its client certificate and its OAuth 2 client. */
import { createSecureContext } from "node:tls";
import {
  certificateFacts,
  type ClientCertificate,
  clientKeyAad,
  clientSecretAad,
  keyPairProblem,
  type Oauth2,
  sealedFor,
} from "../model/credentials.ts";
import { invalidFields } from "../model/problem.ts";
import type { Subscription } from "../model/subscription.ts";
import type { Keys } from "../ports/plugin.ts";

/** The fields that may be given; `null` removes. */
export interface CredentialFields {
  readonly clientCertificate?: ClientCertificate | null;
  /** A client secret of `null` keeps the stored one, as long as it goes to the same origin. */
  readonly oauth2?: (Omit<Oauth2, "clientSecret"> & { readonly clientSecret: string | null }) | null;
}

/** Where a text is sealed for: the subscription, and the URL whose origin it may go to. */
export type Place = Pick<Subscription, "keyId" | "id" | "url">;
type Stored = Pick<Subscription, "clientCertificate" | "oauth2">;

const CREDENTIALS = ["clientCertificate", "oauth2"] as const;

/** Names the credentials that are given, and a secret of the caller's own, for the audit trail. */
export function givenDetail(fields: CredentialFields & { readonly secret?: string | null }): {
  readonly detail?: string;
} {
  const names = ([...CREDENTIALS, "secret"] as const).filter(
    (name) => fields[name] !== undefined && fields[name] !== null,
  );
  return names.length === 0 ? {} : { detail: names.join(" ") };
}

/** @throws Problem VALIDATION_FAILED for a certificate that cannot be used with its key */
export function checkCredentials({ clientCertificate }: CredentialFields): void {
  if (clientCertificate === undefined || clientCertificate === null) return;
  const { cert, key } = clientCertificate;
  const wrong = keyPairProblem(cert, key);
  if (wrong !== undefined) throw invalidFields([{ path: `clientCertificate.${wrong.of}`, message: wrong.message }]);
  try {
    // OpenSSL refuses keys that are too weak only here.
    createSecureContext({ cert, key, ca: [] });
  } catch {
    throw invalidFields([{ path: "clientCertificate.key", message: "is of a kind that TLS does not take" }]);
  }
}

/**
 * Returns the credentials to store.
 * @param kept those that stay where nothing is given; none when the URL moves to another origin, because credentials
 * never go to another one than they were given for
 * @throws Problem VALIDATION_FAILED when a client secret is to be kept that is not there
 */
export function sealCredentials(
  keys: Pick<Keys, "seal">,
  { keyId, id, url }: Place,
  given: CredentialFields,
  kept: Stored,
): Stored {
  const { clientCertificate, oauth2 } = given;
  return {
    clientCertificate: either(clientCertificate, kept.clientCertificate, ({ cert, key }) => ({
      cert,
      sealedKey: keys.seal(key, sealedFor(clientKeyAad(keyId, id), url)),
      ...certificateFacts(cert),
    })),
    oauth2: either(oauth2, kept.oauth2, ({ clientSecret, ...rest }, was) => {
      const aad = sealedFor(clientSecretAad(keyId, id), url, rest.tokenUrl);
      if (clientSecret !== null) return { ...rest, sealedSecret: keys.seal(clientSecret, aad) };
      if (was === undefined || new URL(was.tokenUrl).origin !== new URL(rest.tokenUrl).origin)
        throw invalidFields([{ path: "oauth2.clientSecret", message: "has no stored value to keep" }]);
      return { ...rest, sealedSecret: was.sealedSecret };
    }),
  };
}

/** Returns what was given, sealed; what is kept where nothing was given; `undefined` where it was removed. */
function either<Given, Sealed>(
  given: Given | null | undefined,
  kept: Sealed | undefined,
  seal: (given: Given, kept: Sealed | undefined) => Sealed,
): Sealed | undefined {
  return given === undefined ? kept : given === null ? undefined : seal(given, kept);
}

/** @throws Problem VALIDATION_FAILED for fields that exclude or need each other, or that the URL's transport does not take */
export function checkTogether(sub: Subscription, takesCredentials: (url: string) => boolean = () => true): void {
  const { ordered, orderBy, onFailed } = sub;
  const ordering = Object.entries({ orderBy, onFailed }).filter(([, value]) => ordered !== true && value !== undefined);
  if (ordering.length > 0)
    throw invalidFields(ordering.map(([path]) => ({ path, message: "is only for a subscription that is ordered" })));
  const names = CREDENTIALS.filter((name) => sub[name] !== undefined);
  if (names.length > 0 && !takesCredentials(sub.url))
    throw invalidFields(names.map((path) => ({ path, message: "is only for https: URLs" })));
  const header = Object.keys(sub.headers ?? {}).find((name) => name.toLowerCase() === "authorization");
  if (sub.oauth2 !== undefined && header !== undefined)
    throw invalidFields([{ path: "oauth2", message: `cannot stand beside the header ${header}` }]);
}
