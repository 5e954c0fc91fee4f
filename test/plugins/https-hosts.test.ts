/** Authorities and client certificates of single hosts, from files, over real TLS. */
import { X509Certificate } from "node:crypto";
import { mkdtemp, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { resolvePlan } from "../../config/validate.ts";
import { https } from "../../plugins/transport/https.ts";
import type { HttpsOptions } from "../../plugins/transport/https.ts";
import { clientCertificate, makeAuthority, testAuthority } from "../support/certificates.ts";
import { testFolder } from "../support/folder.ts";
import { startHttp2Receiver } from "../support/http2-receiver.ts";
import { openHttps } from "../support/https.ts";
import { startReceiver } from "../support/receiver.ts";

const root = testFolder();

/** A folder with these files. */
async function folderOf(files: Readonly<Record<string, string>>): Promise<string> {
  const dir = await mkdtemp(join(root, "host-"));
  for (const [name, text] of Object.entries(files)) await writeFile(join(dir, name), text);
  return dir;
}

describe("an authority of one host", () => {
  it("is trusted for that host, in place of all others", async () => {
    const own = await makeAuthority(Date.now(), "Bank CA");
    const configDir = await folderOf({ "bank.pem": own.ca });
    await using bank = await startReceiver({ certificate: await own.issue(["localhost", "127.0.0.1"]) });
    await using other = await startReceiver();
    const options = { hosts: { localhost: { ca: "bank.pem" } } };
    await using line = await openHttps({ configDir, options });
    const to = (port: number, host: string) => line.send({ url: `https://${host}:${port}/hook` });
    expect(await to(bank.port, "localhost")).toMatchObject({ status: 200 });
    // The bank's authority vouches for no other host, and no other authority for the bank's.
    expect(await to(bank.port, "127.0.0.1")).toMatchObject({ error: "tls" });
    expect(await to(other.port, "localhost")).toMatchObject({ error: "tls" });
    expect(await to(other.port, "127.0.0.1")).toMatchObject({ status: 200 });
  });

  it("is trusted over HTTP/2 too, on one connection, and without it the TLS stage fails before any request", async () => {
    const own = await makeAuthority(Date.now(), "Bank CA");
    const configDir = await folderOf({ "bank.pem": own.ca });
    const certificate = await own.issue(["localhost", "127.0.0.1"]);
    await using bank = await startHttp2Receiver({ certificate, allowHTTP1: false });
    const url = `https://localhost:${bank.port}/hook`;
    await using stranger = await openHttps({ configDir, options: { http2: true } });
    expect(await stranger.send({ url })).toMatchObject({ kind: "error", error: "tls" });
    expect(bank.requests).toEqual([]);
    const options = { http2: true, hosts: { localhost: { ca: "bank.pem" } } };
    await using line = await openHttps({ configDir, options });
    expect(await line.send({ url })).toMatchObject({ status: 200 });
    expect(await line.send({ url })).toMatchObject({ status: 200 });
    // The authority is that of one host: the same receiver under its address is a stranger.
    expect(await line.send({ url: bank.url() })).toMatchObject({ kind: "error", error: "tls" });
    expect(bank.requests.map(({ version }) => version)).toEqual(["2.0", "2.0"]);
    expect(new Set(bank.requests.map(({ connection }) => connection)).size).toBe(1);
  });
});

describe("a client certificate of one host", () => {
  it("is shown to that host, also on a connection that is opened again", async () => {
    const pair = await clientCertificate();
    const configDir = await folderOf({ "client.pem": pair.cert, "client.key": pair.key });
    await using receiver = await startReceiver({ clients: true });
    const options = { hosts: { localhost: { cert: "client.pem", key: "client.key" } } };
    await using line = await openHttps({ configDir, options });
    const client = new X509Certificate(pair.cert).fingerprint256;
    for (let i = 0; i < 3; i++) {
      expect(await line.send({ url: `https://localhost:${receiver.port}/hook` })).toMatchObject({ status: 200 });
      await receiver.dropConnections();
    }
    expect(receiver.requests.map((one) => one.client)).toEqual([client, client, client]);
    // Another name of the same receiver gets no certificate.
    expect(await line.send({ url: receiver.url() })).toMatchObject({ kind: "error" });
  });
});

describe("wrong files of a host", () => {
  const problemsOf = (options: unknown, configDir: string): readonly string[] => {
    try {
      resolvePlan({ transports: [https(options as HttpsOptions)] }, { configDir, cwd: configDir, settings: {} });
      return [];
    } catch (error) {
      const { exitCode, problems } = error as { exitCode: number; problems: { path: string; message: string }[] };
      expect(exitCode).toBe(78);
      return problems.map(({ path, message }) => `${path} ${message}`);
    }
  };

  it("are problems of the config, each with its path", async () => {
    const [one, two] = [await clientCertificate(), await clientCertificate()];
    const { ca } = await testAuthority();
    const dir = await folderOf({ ca, "one.pem": one.cert, "one.key": one.key, "two.key": two.key, empty: "" });
    expect(problemsOf({ hosts: { "a.example": { ca: "ca", cert: "one.pem", key: "one.key" } } }, dir)).toEqual([]);
    expect(problemsOf({ hosts: { "a.example": { ca: "no.pem" } } }, dir)).toEqual([
      `transports[0].hosts["a.example"].ca names a file that cannot be read (ENOENT): ${join(dir, "no.pem")}`,
    ]);
    expect(problemsOf({ hosts: { "a.example": { ca: "empty", cert: "one.pem", key: "two.key" } } }, dir)).toEqual([
      'transports[0].hosts["a.example"].ca holds no PEM certificate',
      'transports[0].hosts["a.example"].key is not the key of the certificate',
    ]);
    expect(problemsOf({ hosts: { "a.example": { cert: "one.pem" } } }, dir)).toEqual([
      'transports[0].hosts["a.example"].key is missing beside the other one',
    ]);
    expect(problemsOf({ hosts: { "A.example:443": {} } }, dir)).toEqual([
      'transports[0].hosts "A.example:443" is not a host in lower case, without a port',
    ]);
    expect(problemsOf({ hosts: { "a.example": { pfx: "x" } } }, dir)).toEqual([
      'transports[0].hosts["a.example"].pfx is unknown (there are: ca, cert, key)',
    ]);
  });
});
