/** Builds what TLS connections trust and show: the authorities of the relay, or those and the certificate of one target. */
import { createSecureContext, getCACertificates } from "node:tls";
import type { SecureContext } from "node:tls";
import { setNewest } from "../model/bounded-map.ts";
import { certificatesOf } from "../model/certificate.ts";
import type { TlsIdentity } from "../ports/plugin.ts";

/** A context, and the name under which its sessions are kept: a session of one identity never serves another. */
export interface TrustedContext {
  readonly context: SecureContext;
  readonly scope: number;
}

/** Returns the context of an identity, or that of all connections without one. */
export type Trust = (identity?: TlsIdentity) => TrustedContext;

/** Most contexts of identities that are kept. One with all authorities takes about 1 MiB, and 5 to 10 ms to make. */
const KEPT = 64;

/**
 * Trusted authorities: Node's own roots, the system's, and the operator's `ca`. Not those of NODE_EXTRA_CA_CERTS, which
 * is for other programs of the shell. Read at the first use (50 ms), then kept.
 * @throws Error when `ca` holds no PEM certificates
 */
export function trust(ca: string | undefined): Trust {
  const extra = ca === undefined ? [] : readCertificates(ca);
  const identities = new Map<TlsIdentity, TrustedContext>();
  let authorities: readonly string[] | undefined;
  let common: TrustedContext | undefined;
  let made = 0;

  const make = ({ ca: own, cert, key }: TlsIdentity = {}): TrustedContext => {
    const trusted = own === undefined ? (authorities ??= everyone(extra)) : readCertificates(own);
    const context = createSecureContext({ ca: [...trusted], cert, key, minVersion: "TLSv1.2" });
    return { context, scope: made++ };
  };

  return (identity) => {
    if (identity === undefined) return (common ??= make());
    const known = identities.get(identity) ?? make(identity);
    setNewest(identities, identity, known, KEPT);
    return known;
  };
}

/** Each authority once: Node and the system write the same ones with other line ends. */
function everyone(extra: readonly string[]): readonly string[] {
  const all = [...getCACertificates("bundled"), ...getCACertificates("system"), ...extra];
  return [...new Map(all.map((pem) => [pem.replaceAll(/\s/g, ""), pem])).values()];
}

/** @throws Error when the text is not PEM certificates */
export function readCertificates(pem: string): readonly string[] {
  const found = certificatesOf(pem);
  if (found.length === 0) throw new Error("guard.ca contains no PEM certificate");
  return found.map((certificate) => certificate.toString());
}
