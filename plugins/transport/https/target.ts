/** Where requests go, and what connections there prove themselves with. */
import type { ClientCertificate } from "../../../core/model/credentials.ts";
import type { TlsIdentity } from "../../../core/ports/plugin.ts";

/** Where a request goes, for which subscription of which key, with which client certificate. */
export interface Aim {
  readonly keyId: string;
  readonly subscriptionId: string;
  readonly url: string;
  readonly certificate: ClientCertificate | undefined;
}

/** The place that requests go to: an origin, as the subscriptions of one API key reach it. */
export class Target {
  /** Its name among all places. */
  readonly name: string;
  readonly origin: string;
  /** Host, with its port where the URL names one. */
  readonly authority: string;
  readonly hostname: string;
  readonly port: number;
  readonly identity: TlsIdentity | undefined;

  constructor(name: string, { origin, host, hostname, port }: URL, identity: TlsIdentity | undefined) {
    this.name = name;
    this.origin = origin;
    this.authority = host;
    this.hostname = hostname;
    this.port = port === "" ? 443 : Number(port);
    this.identity = identity;
  }
}

/**
 * Returns the name of the place that a request uses. Subscriptions of one key share it; one with a client certificate of
 * its own has a place of its own, because that is shown once for each connection.
 */
export const placeName = ({ keyId, subscriptionId, certificate }: Aim, origin: string): string =>
  certificate === undefined ? `key ${keyId} ${origin}` : `subscription ${subscriptionId} ${origin}`;

/** The identity of each certificate: one object, because the guard keeps its context and its sessions by the object. */
const identities = new WeakMap<
  ClientCertificate,
  { readonly host: TlsIdentity | undefined; readonly identity: TlsIdentity }
>();

/** Returns what a connection proves itself with: a certificate of the subscription goes before one of the host. */
export function identityOf(
  host: TlsIdentity | undefined,
  certificate: ClientCertificate | undefined,
): TlsIdentity | undefined {
  if (certificate === undefined) return host;
  const known = identities.get(certificate);
  if (known !== undefined && known.host === host) return known.identity;
  const identity = { ...host, ...certificate };
  identities.set(certificate, { host, identity });
  return identity;
}

export const sameCertificate = (a: ClientCertificate | undefined, b: ClientCertificate | undefined): boolean =>
  a === b || (a?.cert === b?.cert && a?.key === b?.key);
