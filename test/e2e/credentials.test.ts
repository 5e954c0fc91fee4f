/** Credentials of subscriptions through a whole relay: given once, sealed, never shown, used by each attempt. */
import { mkdirSync, readdirSync, readFileSync, statSync } from "node:fs";
import { X509Certificate } from "node:crypto";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { filesystem } from "../../config/index.ts";
import { clientCertificate } from "../support/certificates.ts";
import { testFolder } from "../support/folder.ts";
import { startReceiver } from "../support/receiver.ts";
import { startRelay } from "../support/relay.ts";
import type { TestRelay } from "../support/relay.ts";

const LIST = "/api-keys/key_1/webhooks";
const folder = testFolder();

const grant = { do: "reply", body: JSON.stringify({ access_token: "the-access-token", expires_in: 60 }) } as const;

/** Everything that lies in a folder, as text. */
const contents = (dir: string): string =>
  readdirSync(dir, { recursive: true })
    .map((name) => join(dir, String(name)))
    .filter((file) => statSync(file).isFile())
    .map((file) => readFileSync(file, "latin1"))
    .join("\n");

const errorsOf = async (relay: TestRelay, body: object, method = "POST", path = LIST): Promise<unknown> => {
  const got = await relay.call(method, path, { body });
  return [
    got.status,
    ...(got.json.errors ?? []).map((one: { path: string; message: string }) => `${one.path} ${one.message}`),
  ];
};

describe("credentials of a subscription", () => {
  it("are sealed, never shown, sent with each delivery, and removed with null", async () => {
    await using endpoint = await startReceiver({ otherwise: grant });
    await using receiver = await startReceiver({
      clients: true,
      otherwise: { do: "reply", body: "the-access-token!" },
    });
    const dataDir = join(folder, "one");
    mkdirSync(dataDir);
    await using relay = await startRelay({ storage: filesystem() }, dataDir);
    const pair = await clientCertificate();
    const oauth2 = { tokenUrl: endpoint.url("/token"), clientId: "me", clientSecret: "the-client-secret" };
    const body = { url: receiver.url(), events: ["*"], clientCertificate: pair, oauth2 };
    const made = await relay.call("POST", LIST, { body });
    const shown = {
      clientCertificate: {
        subject: expect.stringContaining("CN=client-"),
        fingerprint: new X509Certificate(pair.cert).fingerprint256,
        notAfter: new Date(new X509Certificate(pair.cert).validTo).toISOString(),
      },
      oauth2: { tokenUrl: oauth2.tokenUrl, clientId: "me", clientSecret: null },
    };
    expect(made.status).toBe(201);
    expect(made.json.data).toMatchObject(shown);
    const { id } = made.json.data;
    const one = `${LIST}/${id}`;
    const [got, list] = [await relay.call("GET", one), await relay.call("GET", LIST)];
    expect(got.json.data).toMatchObject(shown);
    for (const { text } of [made, got, list]) {
      expect(text).not.toContain("PRIVATE KEY");
      expect(text).not.toContain("the-client-secret");
    }
    await relay.publish({ type: "a:b", keyId: "key_1", data: 1 });
    const [delivered] = await receiver.waitFor(1);
    expect(delivered?.headers.authorization).toBe("Bearer the-access-token");
    expect(delivered?.client).toBe(shown.clientCertificate.fingerprint);
    // The token is masked where the receiver repeats it.
    const sent = await relay.call("POST", `${one}/test`);
    expect(sent.json.data).toMatchObject({ statusCode: 200, responseExcerpt: "[masked]!" });
    const stored = contents(dataDir);
    for (const secret of ["PRIVATE KEY", "the-client-secret", "the-access-token"]) expect(stored).not.toContain(secret);
    const cleared = await relay.call("PATCH", one, { body: { clientCertificate: null, oauth2: null } });
    expect(Object.keys(cleared.json.data)).not.toContain("oauth2");
    expect(Object.keys(cleared.json.data)).not.toContain("clientCertificate");
    const trail = await relay.call("GET", "/api-keys/key_1/audit");
    const lines = (trail.json.data as { action: string; detail?: string }[]).map((line) => [line.action, line.detail]);
    expect(lines).toContainEqual(["subscription.created", "clientCertificate oauth2"]);
    expect(lines).toContainEqual(["subscription.updated", "clientCertificate oauth2"]);
  });

  it("that the token endpoint refuses end the attempt at a stage of its own", async () => {
    const refusal = JSON.stringify({ error: "invalid_client" });
    await using endpoint = await startReceiver({ otherwise: { do: "reply", status: 401, body: refusal } });
    await using relay = await startRelay();
    const oauth2 = { tokenUrl: endpoint.url("/token"), clientId: "me", clientSecret: "the-client-secret" };
    const body = { url: "https://127.0.0.1:1/hook", events: ["*"], oauth2 };
    const { id } = (await relay.call("POST", LIST, { body })).json.data;
    expect((await relay.call("POST", `${LIST}/${id}/test`)).json.data).toMatchObject({
      error: "token",
      detail: "the token endpoint answered 401 (invalid_client)",
    });
  });

  it("go to no other origin than they were given for", async () => {
    await using relay = await startRelay();
    const pair = await clientCertificate();
    const oauth2 = { tokenUrl: "https://127.0.0.1:7/token", clientId: "me", clientSecret: "secret" };
    const url = "https://127.0.0.1:1/hook";
    const made = await relay.call("POST", LIST, { body: { url, events: ["*"], clientCertificate: pair, oauth2 } });
    const one = `${LIST}/${made.json.data.id}`;
    const patch = (body: object) => relay.call("PATCH", one, { body });
    // The same origin keeps them; the secret is kept where the token URL keeps its origin.
    expect((await patch({ url: `${url}/2` })).json.data).toHaveProperty("clientCertificate");
    const scoped = await patch({ oauth2: { ...oauth2, clientSecret: null, scope: "a" } });
    expect(scoped.json.data.oauth2).toMatchObject({ scope: "a", clientSecret: null });
    const stolen = { oauth2: { ...oauth2, tokenUrl: "https://127.0.0.1:8/token", clientSecret: null } };
    expect(await errorsOf(relay, stolen, "PATCH", one)).toEqual([
      400,
      "oauth2.clientSecret has no stored value to keep",
    ]);
    const moved = await patch({ url: "https://127.0.0.1:2/hook" });
    expect(moved.json.data).not.toHaveProperty("clientCertificate");
    expect(moved.json.data).not.toHaveProperty("oauth2");
  });

  it("are refused where they cannot work, with the field", async () => {
    await using relay = await startRelay();
    const [one, two] = [await clientCertificate(), await clientCertificate()];
    const base = { url: "https://127.0.0.1:1/hook", events: ["*"] };
    const oauth2 = { tokenUrl: "https://127.0.0.1:7/token", clientId: "me", clientSecret: "secret" };
    const refused = (more: object) => errorsOf(relay, { ...base, ...more });
    expect(await refused({ clientCertificate: { cert: one.cert, key: two.key } })).toEqual([
      400,
      "clientCertificate.key is not the key of the certificate",
    ]);
    expect(await refused({ clientCertificate: { cert: "no", key: two.key } })).toEqual([
      400,
      "clientCertificate.cert holds no PEM certificate",
    ]);
    expect(await refused({ oauth2: { ...oauth2, clientSecret: null } })).toMatchObject([400, expect.anything()]);
    expect(await refused({ oauth2: { ...oauth2, tokenUrl: "http://127.0.0.1:7/" } })).toEqual([
      400,
      "oauth2.tokenUrl must start with https://",
    ]);
    expect(await refused({ oauth2: { ...oauth2, tokenUrl: "https://10.0.0.1/token" } })).toEqual([
      422,
      "oauth2.tokenUrl the host is not on the public internet",
    ]);
    expect(await refused({ oauth2, headers: { authorization: "Bearer x" } })).toEqual([
      400,
      "oauth2 cannot stand beside the header authorization",
    ]);
  });
});
