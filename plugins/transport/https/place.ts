/** Where one subscription's requests go: the target of its connections, and what they trust and show in TLS. */
import type { ClientCertificate } from "../../../core/model/credentials.ts";
import type { TlsIdentity } from "../../../core/ports/plugin.ts";

/** Where a request goes, for which subscription, with which client certificate. */
export interface Aim {
  readonly subscriptionId: string;
  readonly url: string;
  readonly certificate: ClientCertificate | undefined;
}

export interface Target {
  readonly subscriptionId: string;
  readonly origin: string;
  /** Host, with its port where the URL names one. */
  readonly authority: string;
  readonly hostname: string;
  readonly port: number;
  readonly identity: TlsIdentity | undefined;
  /** The subscription's own client certificate, which `identity` holds. */
  readonly certificate: ClientCertificate | undefined;
  /** The last URL and its parsed form: parsing one costs as much as sending it. */
  url: string;
  path: string;
}

/** @param hosts what single hosts need in TLS */
export function targetOf({ subscriptionId, url, certificate }: Aim, hosts: ReadonlyMap<string, TlsIdentity>): Target {
  const { origin, host, hostname, port, pathname, search } = new URL(url);
  return {
    subscriptionId,
    origin,
    authority: host,
    hostname,
    port: port === "" ? 443 : Number(port),
    identity: identityOf(hosts.get(hostname), certificate),
    certificate,
    url,
    path: pathname + search,
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
