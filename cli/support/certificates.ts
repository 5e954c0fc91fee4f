/** Makes, and keeps in a folder, a local certificate authority for receivers on this machine: `relay listen`, `relay demo` and the tests. */
import { createPrivateKey, KeyObject, webcrypto, X509Certificate } from "node:crypto";
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { isIP } from "node:net";
import { join } from "node:path";
import { reasonOf } from "../../core/lib/reason.ts";
import type { CliEnvironment } from "./environment.ts";
import { EX_UNAVAILABLE, ExitError } from "./exit.ts";

/** A certificate and its private key, PEM. `cert` holds the leaf only; its issuer is the authority's `ca`. */
export interface KeyPair {
  readonly cert: string;
  readonly key: string;
}

export interface Validity {
  /** Epoch ms. @default a day ago, so that a clock that is a little behind does no harm */
  readonly from?: number;
  /** Epoch ms. @default in 30 days */
  readonly until?: number;
}

export interface Authority {
  /** The root certificate, PEM: what a client has to trust. */
  readonly ca: string;
  /** Its private key, PEM (PKCS #8). Anyone who has it can issue certificates that those who trust `ca` accept. */
  readonly caKey: string;
  /**
   * A certificate for host names and IP addresses (IPv6 without brackets).
   * @param use what it proves: a server, or the client of one. @default "server"
   */
  issue(names: readonly string[], validity?: Validity, use?: "server" | "client"): Promise<KeyPair>;
}

const DAY_MS = 86_400_000;
const EC = { name: "ECDSA", namedCurve: "P-256" } as const;
const SIGNING = { name: "ECDSA", hash: "SHA-256" } as const;

// Loaded on first use: the relay itself never makes a certificate. The library needs the polyfill first.
const library = async () => {
  await import("reflect-metadata");
  return import("@peculiar/x509");
};

const makeKeys = (): Promise<webcrypto.CryptoKeyPair> => webcrypto.subtle.generateKey(EC, true, ["sign", "verify"]);

const exportKey = (key: webcrypto.CryptoKey): string =>
  KeyObject.from(key).export({ type: "pkcs8", format: "pem" }) as string;

const importKey = (pem: string): webcrypto.CryptoKey => createPrivateKey(pem).toCryptoKey(EC, true, ["sign"]);

/** @param now epoch ms: certificates are valid around it */
export const makeAuthority = async (now: number, name = "Relay local CA"): Promise<Authority> => {
  const x509 = await library();
  const keys = await makeKeys();
  const root = await x509.X509CertificateGenerator.createSelfSigned({
    name: `CN=${name}`,
    keys,
    notBefore: new Date(now - DAY_MS),
    notAfter: new Date(now + 365 * DAY_MS),
    signingAlgorithm: SIGNING,
    extensions: [
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  return openAuthority(`${root.toString("pem")}\n`, exportKey(keys.privateKey), now);
};

/** Opens an existing authority from its two PEM texts. */
export const openAuthority = async (ca: string, caKey: string, now: number): Promise<Authority> => {
  const x509 = await library();
  const root = new x509.X509Certificate(ca);
  const signingKey = importKey(caKey);
  const issue: Authority["issue"] = async (names, validity = {}, use = "server") => {
    const keys = await makeKeys();
    const leaf = await x509.X509CertificateGenerator.create({
      subject: `CN=${names[0] ?? "relay"}`,
      issuer: root.subjectName,
      publicKey: keys.publicKey,
      signingKey,
      notBefore: new Date(validity.from ?? now - DAY_MS),
      notAfter: new Date(validity.until ?? now + 30 * DAY_MS),
      signingAlgorithm: SIGNING,
      extensions: [
        new x509.BasicConstraintsExtension(false, undefined, true),
        new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
        new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage[use === "server" ? "serverAuth" : "clientAuth"]]),
        new x509.SubjectAlternativeNameExtension(
          names.map((value) => ({ type: isIP(value) === 0 ? ("dns" as const) : ("ip" as const), value })),
        ),
        await x509.AuthorityKeyIdentifierExtension.create(root),
      ],
    });
    return { cert: `${leaf.toString("pem")}\n`, key: exportKey(keys.privateKey) };
  };
  return { ca, caKey, issue };
};

/** Returns the authority kept in the folder, made at the first call, and again before it ends. @throws ExitError 69 */
export async function keptAuthority(folder: string, { clock }: CliEnvironment): Promise<Authority> {
  const [caFile, keyFile] = [join(folder, "ca.pem"), join(folder, "ca-key.pem")];
  try {
    if (existsSync(caFile) && existsSync(keyFile)) {
      const ca = readFileSync(caFile, "utf8");
      const endsAt = Date.parse(new X509Certificate(ca).validTo);
      // Its certificates are valid for 30 days.
      if (endsAt - clock.now() > 31 * 86_400_000)
        return await openAuthority(ca, readFileSync(keyFile, "utf8"), clock.now());
    }
    const authority = await makeAuthority(clock.now(), "Relay listen");
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    writeFileSync(keyFile, authority.caKey, { mode: 0o600 });
    chmodSync(keyFile, 0o600);
    writeFileSync(caFile, authority.ca);
    return authority;
  } catch (error) {
    const { syscall } = error as NodeJS.ErrnoException;
    // A full disk or a kill may have cut a file off.
    const why =
      syscall === undefined ? "ca.pem or ca-key.pem is damaged: delete both, and new ones are made" : reasonOf(error);
    throw new ExitError(EX_UNAVAILABLE, `cannot keep a certificate authority in ${folder}: ${why}`, { cause: error });
  }
}
