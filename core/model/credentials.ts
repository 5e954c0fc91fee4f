/** What a subscription proves itself with to its receiver: a client certificate, or tokens of an OAuth 2 server. */

/** What people may see of a certificate. */
export interface CertificateFacts {
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

/** AAD of the sealed client secret. */
export const clientSecretAad = (keyId: string, subscriptionId: string): string => `oauth2:${keyId}:${subscriptionId}`;
