/**
 * Where requests go. A place is what connections are kept for: an origin, as the subscriptions of one API key reach it. A
 * route is the way of one subscription to its place.
 */
import type { ClientCertificate } from "../../../core/model/credentials.ts";
import type { TlsIdentity } from "../../../core/ports/plugin.ts";

/** Where a request goes, for which subscription of which key, with which client certificate. */
export interface Aim {
  readonly keyId: string;
  readonly subscriptionId: string;
  readonly url: string;
  readonly certificate: ClientCertificate | undefined;
}

export interface Target {
  /** Name of the place among all. */
  readonly name: string;
  readonly origin: string;
  /** Host, with its port where the URL names one. */
  readonly authority: string;
  readonly hostname: string;
  readonly port: number;
  readonly identity: TlsIdentity | undefined;
}

/**
 * Returns the name of the place that a request uses. Subscriptions of one key share it; one with a client certificate of
 * its own has a place of its own, because that is shown once for each connection.
 */
const placeName = ({ keyId, subscriptionId, certificate }: Aim, origin: string): string =>
  certificate === undefined ? `key ${keyId} ${origin}` : `subscription ${subscriptionId} ${origin}`;

/** @param hosts what single hosts need in TLS */
export function targetOf(aim: Aim, url: URL, hosts: ReadonlyMap<string, TlsIdentity>): Target {
  const { origin, host, hostname, port } = url;
  return {
    name: placeName(aim, origin),
    origin,
    authority: host,
    hostname,
    port: port === "" ? 443 : Number(port),
    identity: identityOf(hosts.get(hostname), aim.certificate),
  };
}

/** The identity of each certificate: one object, because the guard keeps its context and its sessions by the object. */
const identities = new WeakMap<
  ClientCertificate,
  { readonly host: TlsIdentity | undefined; readonly identity: TlsIdentity }
>();

/** A certificate of the subscription goes before one of the host. */
function identityOf(
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
