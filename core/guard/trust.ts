/** Builds what TLS connections trust and show: the authorities of the relay, or those and the certificate of one target. */
import { createPrivateKey } from "node:crypto";
import { createSecureContext, getCACertificates, type SecureContext } from "node:tls";
import { setNewest } from "../lib/bounded-map.ts";
import { certificatesOf } from "../model/credentials.ts";
import type { TlsIdentity } from "../ports/plugin.ts";

/** A context, and the name under which its sessions are kept: a session of one identity never serves another. */
export interface TrustedContext {
  readonly context: SecureContext;
  readonly scope: number;
}

/**
 * Returns the context of an identity, or that of all connections without one. A context is shared: begin the connection
 * before the next call, because the next identity replaces the certificate. A connection keeps the one it began with.
 */
export type Trust = (identity?: TlsIdentity) => TrustedContext;

/**
 * Most contexts that are kept. One with all authorities takes about 1 MiB and 20 to 70 ms to make, so a context per
 * certificate would let the owner of many certificates stop the relay. A certificate takes 0.15 ms to replace.
 */
const KEPT = 64;
/**
 * OpenSSL keeps the issuers of a certificate that is replaced, and shows them beside the next one. So certificates that name
 * issuers share a context with those of the same issuers alone. So many have one; it is theirs for good, because one that
 * takes another's place would be made again each time.
 */
const WITH_ISSUERS = 16;
/** All others share one, which is made again when it holds so many issuers: receivers refuse more than some 64 KiB. */
const MOST_ISSUERS = 24;

/** Sets what a context shows; Node's own `createSecureContext` sets it the same way. */
interface Shown {
  setCert(pem: string): void;
  setKey(pem: string): void;
}

/** An identity that was read once. */
interface Known {
  /** Contexts hold one certificate of each kind of key: those of two kinds never share a context. */
  readonly kind: string;
  readonly scope: number;
  /** Its own certificate, PEM; empty where it shows none. */
  readonly leaf: string;
  /** Those that issued it, PEM. */
  readonly issuers: readonly string[];
}

/**
 * Trusted authorities: Node's own roots, the system's, and the operator's `ca`. Not those of NODE_EXTRA_CA_CERTS, which
 * is for other programs of the shell. Read at the first use (50 ms), then kept.
 * @throws Error when `ca` holds no PEM certificates
 */
export function trust(ca: string | undefined): Trust {
  const extra = ca === undefined ? [] : readCertificates(ca);
  const identities = new WeakMap<TlsIdentity, Known>();
  const contexts = new Map<string, SecureContext>();
  const withIssuers = new Map<string, SecureContext>();
  /** The context that all others share, and how many issuers it holds. As many are kept as of the other contexts. */
  const shared = new Map<string, { readonly context: SecureContext; readonly issuers: number }>();
  let authorities: readonly string[] | undefined;
  let common: TrustedContext | undefined;
  let made = 0;

  const make = (own: string | undefined): SecureContext => {
    const trusted = own === undefined ? (authorities ??= everyone(extra)) : readCertificates(own);
    return createSecureContext({ ca: [...trusted], minVersion: "TLSv1.2" });
  };
  const known = (identity: TlsIdentity): Known => {
    const found = identities.get(identity) ?? { kind: kindOf(identity), scope: ++made, ...chainOf(identity) };
    identities.set(identity, found);
    return found;
  };
  const kept = (name: string, own: string | undefined): SecureContext => {
    const context = contexts.get(name) ?? make(own);
    setNewest(contexts, name, context, KEPT);
    return context;
  };
  /** The context in which a certificate is shown with its issuers, and, as long as there is room, with no others. */
  const issuedBy = (
    issuers: readonly string[],
    leaf: string,
    alike: string,
    own: string | undefined,
  ): SecureContext => {
    const all = leaf + issuers.join("");
    const name = `${alike} ${issuers.join("")}`;
    const known = withIssuers.get(name);
    if (known !== undefined) return known;
    if (withIssuers.size < WITH_ISSUERS) {
      const context = make(own);
      // Once: each time would add them again.
      (context.context as Shown).setCert(all);
      withIssuers.set(name, context);
      return context;
    }
    const before = shared.get(alike);
    const fits = before !== undefined && before.issuers + issuers.length <= MOST_ISSUERS;
    const now = fits ? before : { context: make(own), issuers: 0 };
    (now.context.context as Shown).setCert(all);
    setNewest(shared, alike, { context: now.context, issuers: now.issuers + issuers.length }, KEPT);
    return now.context;
  };

  return (identity) => {
    if (identity === undefined) return (common ??= { context: make(undefined), scope: 0 });
    const { ca: own, key } = identity;
    const { kind, scope, leaf, issuers } = known(identity);
    const alike = `${kind} ${own ?? ""}`;
    const context = issuers.length === 0 ? kept(alike, own) : issuedBy(issuers, leaf, alike, own);
    if (leaf !== "" && key !== undefined) {
      const shown = context.context as Shown;
      shown.setCert(leaf);
      shown.setKey(key);
    }
    return { context, scope };
  };
}

/** The kind of its key, or nothing for an identity that shows no certificate. */
const kindOf = ({ key }: TlsIdentity): string =>
  key === undefined ? "" : (createPrivateKey(key).asymmetricKeyType ?? "other");

/** The certificate that an identity shows, apart from those that issued it. */
function chainOf({ cert, key }: TlsIdentity): Pick<Known, "leaf" | "issuers"> {
  if (cert === undefined || key === undefined) return { leaf: "", issuers: [] };
  const [leaf = "", ...issuers] = certificatesOf(cert).map((one) => one.toString());
  return { leaf, issuers };
}

/** Each authority once: Node and the system write the same ones with other line ends. */
function everyone(extra: readonly string[]): readonly string[] {
  const all = [...getCACertificates("bundled"), ...getCACertificates("system"), ...extra];
  return [...new Map(all.map((pem) => [pem.replaceAll(/\s/g, ""), pem])).values()];
}

/** @throws Error when the text is not PEM certificates */
function readCertificates(pem: string): readonly string[] {
  const found = certificatesOf(pem);
  if (found.length === 0) throw new Error("guard.ca contains no PEM certificate");
  return found.map((certificate) => certificate.toString());
}
