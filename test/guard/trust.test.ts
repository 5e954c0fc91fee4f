/** TLS connections trust and show what they should: certificates of many identities share contexts, and never take each other's place. */
import { X509Certificate, webcrypto } from "node:crypto";
import { createSecureContext, createServer, rootCertificates, TLSSocket } from "node:tls";
import { createServer as createTcpServer, type AddressInfo } from "node:net";
import { beforeAll, describe, expect, it } from "vitest";
import { createGuard } from "../../core/guard/index.ts";
import { trust } from "../../core/guard/trust.ts";
import { keyPairProblem } from "../../core/model/credentials.ts";
import type { TlsIdentity } from "../../core/ports/plugin.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { clientCertificate, loopbackCertificate, testAuthority, type KeyPair } from "../support/certificates.ts";

const never = new AbortController().signal;

/** A certificate with an RSA key, signed by itself. */
async function rsaCertificate(): Promise<KeyPair> {
  await import("reflect-metadata");
  const { PemConverter, X509CertificateGenerator } = await import("@peculiar/x509");
  const algorithm = {
    name: "RSASSA-PKCS1-v1_5",
    hash: "SHA-256",
    modulusLength: 2_048,
    publicExponent: new Uint8Array([1, 0, 1]),
  };
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);
  const made = await X509CertificateGenerator.createSelfSigned({ name: "CN=rsa", keys, signingAlgorithm: algorithm });
  const key = PemConverter.encode(await webcrypto.subtle.exportKey("pkcs8", keys.privateKey), "PRIVATE KEY");
  return { cert: made.toString("pem"), key };
}

interface Server extends AsyncDisposable {
  readonly port: number;
}

/** Tells each client which certificates it showed: its own and those that issued it. */
async function serve(): Promise<Server> {
  const sockets = new Set<TLSSocket>();
  const asking = { requestCert: true, rejectUnauthorized: false };
  const server = createServer({ ...(await loopbackCertificate()), ...asking }, (socket) => {
    sockets.add(socket.on("error", () => undefined).on("close", () => sockets.delete(socket)));
    socket.end(socket.getPeerX509Certificate()?.fingerprint256 ?? "none");
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  return {
    port: (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      const closed = new Promise((resolve) => server.close(resolve));
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}

const fingerprint = ({ cert }: KeyPair): string => new X509Certificate(cert).fingerprint256;

describe("identities that show certificates", () => {
  let elliptic: readonly KeyPair[];
  let rsa: readonly KeyPair[];
  beforeAll(async () => {
    elliptic = await Promise.all(Array.from({ length: 30 }, () => clientCertificate()));
    rsa = [await rsaCertificate(), await rsaCertificate()];
  });

  it("show their own, though all connect at once, with keys of several kinds", async () => {
    await using server = await serve();
    const { ca } = await testAuthority();
    const guard = createGuard({ allow: ["127.0.0.1:*"], ports: [443], ca, clock: systemClock() });
    const shown = async (identity: TlsIdentity | undefined): Promise<string> => {
      const target = { hostname: "127.0.0.1", port: server.port, ...(identity && { identity }) };
      const socket = await guard.connect(target, never);
      let text = "";
      for await (const chunk of socket) text += String(chunk);
      return text;
    };
    const pairs = [rsa[0], elliptic[0], rsa[1], elliptic[1], elliptic[2]].filter((pair) => pair !== undefined);
    const all = [
      ...pairs,
      undefined,
      ...pairs.toReversed(),
      undefined,
      { ca },
      ...pairs.map((pair) => ({ ...pair, ca })),
    ];
    const expected = all.map((one) => (one !== undefined && "cert" in one ? fingerprint(one) : "none"));
    expect(await Promise.all(all.map(shown))).toEqual(expected);
    for (const [i, one] of all.entries()) expect(await shown(one)).toBe(expected[i]);
  });

  it("show those that issued theirs, and none of another, however often they connect", async () => {
    const { ca } = await testAuthority();
    const own = { ...(await loopbackCertificate()), requestCert: true, rejectUnauthorized: false };
    /** Bytes of each handshake that the server has read. */
    const read: number[] = [];
    const server = createTcpServer((raw) => {
      const socket = new TLSSocket(raw, { isServer: true, secureContext: createSecureContext(own), ...own });
      socket.on("error", () => undefined).once("secure", () => read.push(raw.bytesRead) && socket.end());
    });
    await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    const guard = createGuard({ allow: ["127.0.0.1:*"], ports: [443], ca, clock: systemClock() });
    const [alone, other] = elliptic as readonly [KeyPair, KeyPair];
    const issued = { ...other, cert: [other, ...rsa].map(({ cert }) => cert).join("\n") };
    for (const pair of [alone, issued, issued, issued, alone, issued]) {
      // A new object each time, so that no session is resumed.
      const socket = await guard.connect({ hostname: "127.0.0.1", port, identity: { ...pair } }, never);
      for await (const _ of socket.resume()) break;
      socket.destroy();
    }
    await new Promise((resolve) => server.close(resolve));
    const [first = 0, second = 0, third = 0, , fifth = 0, sixth = 0] = read;
    // A signature is a few bytes longer or shorter each time, an authority's certificate some hundred.
    expect(second - first).toBeGreaterThan(200);
    expect([third - second, fifth - first, sixth - second].map((more) => Math.abs(more) < 50)).toEqual([
      true,
      true,
      true,
    ]);
  });

  it("show few of others, where so many name different issuers that they share a context", async () => {
    const trusted = trust((await testAuthority()).ca);
    const [shown, ...issuers] = elliptic as readonly [KeyPair, ...KeyPair[]];
    const with_ = (some: readonly KeyPair[]): TlsIdentity => ({
      ...shown,
      cert: [shown, ...some].map(({ cert }) => cert).join("\n"),
    });
    const own = issuers.slice(0, 16).map((one) => trusted(with_([one])).context);
    expect(new Set(own).size).toBe(16);
    expect(issuers.slice(0, 16).every((one, i) => trusted(with_([one])).context === own[i])).toBe(true);
    const shared = Array.from({ length: 60 }, (_, i) => trusted(with_([issuers[16 + (i % 10)] as KeyPair])).context);
    // Made again after every 24 of them, and never once for each.
    expect(new Set(shared).size).toBe(3);
  });

  it("cost no context each: a hundred in turn take less than ten contexts", () => {
    const trusted = trust(undefined);
    trusted();
    const spent = (work: () => void): number => {
      const before = process.cpuUsage();
      work();
      const { user, system } = process.cpuUsage(before);
      return user + system;
    };
    trusted(elliptic[0]);
    const contexts = spent(() => {
      for (let i = 0; i < 10; i++) createSecureContext({ ca: [...rootCertificates] });
    });
    const turns = spent(() => {
      for (let i = 0; i < 100; i++) trusted({ ...(elliptic[i % 30] as KeyPair) });
    });
    expect(turns).toBeLessThan(contexts);
  });

  it("of many authorities leave no more contexts behind than those that were used last", async () => {
    const trusted = trust(undefined);
    const { ca } = await testAuthority();
    const contextOf = (n: number) => trusted({ ca: `# authority ${n}\n${ca}` }).context;
    const first = contextOf(0);
    const later = Array.from({ length: 63 }, (_, i) => contextOf(i + 1));
    expect(contextOf(0)).toBe(first);
    contextOf(64);
    expect(contextOf(0)).toBe(first);
    expect(contextOf(63)).toBe(later[62]);
    expect(contextOf(1)).not.toBe(later[0]);
  });

  it("keep their sessions apart", () => {
    const trusted = trust(undefined);
    const [one, two] = elliptic;
    const scopes = [undefined, one, two, undefined, one].map((identity) => trusted(identity).scope);
    expect(new Set(scopes).size).toBe(3);
    expect(scopes.slice(3)).toEqual(scopes.slice(0, 2));
  });
});

it("a client key that takes long to sign is refused", async () => {
  const { cert } = await clientCertificate();
  // Its numbers are no primes: nothing but its length is looked at (RFC 8017, A.1.2).
  const der = (tag: number, value: Buffer): Buffer =>
    Buffer.concat([Buffer.from([tag, 0x82, value.length >> 8, value.length & 255]), value]);
  const number = (bytes: number): Buffer => der(2, Buffer.alloc(bytes, 0x7f));
  const numbers = [Buffer.from([2, 1, 0]), number(1_024), Buffer.from([2, 3, 1, 0, 1]), number(1_023)];
  const whole = der(0x30, Buffer.concat([...numbers, ...Array.from({ length: 5 }, () => number(512))]));
  const key = `-----BEGIN RSA PRIVATE KEY-----\n${whole.toString("base64")}\n-----END RSA PRIVATE KEY-----\n`;
  expect(keyPairProblem(cert, key)).toEqual({ of: "key", message: "has more than 4096 bits" });
});
