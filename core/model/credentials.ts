/** What a subscription proves itself with to its receiver: a client certificate, or tokens of an OAuth 2 server. */
import type { CertificateFacts } from "./certificate.ts";

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

/** AAD of the sealed client secret. */
export const clientSecretAad = (keyId: string, subscriptionId: string): string => `oauth2:${keyId}:${subscriptionId}`;
