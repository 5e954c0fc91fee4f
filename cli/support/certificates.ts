/** Makes a local certificate authority for receivers on this machine: `relay listen`, `relay demo` and the tests. */
import { webcrypto } from "node:crypto";
import { isIP } from "node:net";

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

type Library = typeof import("@peculiar/x509");

// Loaded on first use: the relay itself never makes a certificate. The library needs the polyfill first.
const library = async (): Promise<Library> => {
  await import("reflect-metadata");
  return import("@peculiar/x509");
};

const makeKeys = (): Promise<webcrypto.CryptoKeyPair> => webcrypto.subtle.generateKey(EC, true, ["sign", "verify"]);

const toPem = (label: string, der: ArrayBuffer): string => {
  const lines =
    Buffer.from(der)
      .toString("base64")
      .match(/.{1,64}/g) ?? [];
  return `-----BEGIN ${label}-----\n${lines.join("\n")}\n-----END ${label}-----\n`;
};

const exportKey = async (key: webcrypto.CryptoKey): Promise<string> =>
  toPem("PRIVATE KEY", await webcrypto.subtle.exportKey("pkcs8", key));

const importKey = (pem: string): Promise<webcrypto.CryptoKey> => {
  const der = Buffer.from(pem.replaceAll(/-----[^-]+-----|\s/g, ""), "base64");
  return webcrypto.subtle.importKey("pkcs8", der, EC, true, ["sign"]);
};

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
  return openAuthority(`${root.toString("pem")}\n`, await exportKey(keys.privateKey), now);
};

/** Opens an existing authority from its two PEM texts. */
export const openAuthority = async (ca: string, caKey: string, now: number): Promise<Authority> => {
  const x509 = await library();
  const root = new x509.X509Certificate(ca);
  const signingKey = await importKey(caKey);
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
    return { cert: `${leaf.toString("pem")}\n`, key: await exportKey(keys.privateKey) };
  };
  return { ca, caKey, issue };
};
