/** Client certificates and OAuth 2 tokens of subscriptions, over real TLS to a receiver and a token endpoint. */
import { X509Certificate } from "node:crypto";
import { describe, expect, it } from "vitest";
import type { Credentials, Oauth2 } from "../../core/model/credentials.ts";
import { clientCertificate } from "../support/certificates.ts";
import { testClock } from "../support/clock.ts";
import { openHttps } from "../support/https.ts";
import { startReceiver } from "../support/receiver.ts";
import type { Receiver, Step } from "../support/receiver.ts";

const fingerprint = (pem: string): string => new X509Certificate(pem).fingerprint256;

describe("a client certificate of a subscription", () => {
  it("is shown by its own connections alone, also when they are resumed", async () => {
    await using receiver = await startReceiver({ clients: true });
    await using line = await openHttps({});
    const [one, two] = [await clientCertificate(), await clientCertificate()];
    const from = (subscriptionId: string, pair: { cert: string; key: string } | undefined) =>
      line.send({
        url: receiver.url(),
        subscriptionId,
        ...(pair && { credentials: { clientCertificate: pair } }),
      });
    for (let i = 0; i < 3; i++) {
      expect(await from("sub_1", one)).toMatchObject({ status: 200 });
      expect(await from("sub_2", two)).toMatchObject({ status: 200 });
      await receiver.dropConnections();
    }
    expect(await from("sub_3", undefined)).toMatchObject({ kind: "error" });
    const shown = [fingerprint(one.cert), fingerprint(two.cert)];
    // One identity each, whose context and sessions serve all its connections.
    expect(new Set(line.targets.slice(0, 6).map(({ identity }) => identity)).size).toBe(2);
    expect(receiver.requests.map(({ client }) => client)).toEqual([...shown, ...shown, ...shown]);
  });

  it("that was changed is shown from the next request on, on a new connection", async () => {
    await using receiver = await startReceiver({ clients: true });
    await using line = await openHttps({});
    const pairs = [await clientCertificate(), await clientCertificate()];
    for (const pair of pairs) {
      const credentials = { clientCertificate: pair };
      expect(await line.send({ url: receiver.url(), credentials })).toMatchObject({ status: 200 });
      // The same one in another object keeps the connection.
      expect(await line.send({ url: receiver.url(), credentials: structuredClone(credentials) })).toBeDefined();
    }
    expect(receiver.requests.map(({ client, connection }) => [client, connection])).toEqual(
      pairs.flatMap(({ cert }, i) => [
        [fingerprint(cert), i + 1],
        [fingerprint(cert), i + 1],
      ]),
    );
  });
});

const token = (access_token: string, more: object = { expires_in: 600 }): Step => ({
  do: "reply",
  status: 200,
  headers: { "content-type": "application/json" },
  body: JSON.stringify({ access_token, token_type: "Bearer", ...more }),
});

const oauth2Of = (endpoint: Receiver, more: Partial<Oauth2> = {}): Credentials => ({
  oauth2: { tokenUrl: endpoint.url("/token"), clientId: "client id", clientSecret: "s:ecret", ...more },
});

const bearers = ({ requests }: Receiver): readonly (string | undefined)[] =>
  requests.map(({ headers }) => headers.authorization);

describe("an access token", () => {
  it("is asked for as RFC 6749 says, once, and sent with each request while it lives", async () => {
    await using endpoint = await startReceiver({ script: [token("one"), token("two")] });
    await using receiver = await startReceiver();
    const clock = testClock();
    await using line = await openHttps({ clock });
    const credentials = oauth2Of(endpoint, { scope: "a b", audience: "https://api.example" });
    const send = () => line.send({ url: receiver.url(), credentials });
    await Promise.all([send(), send(), send()]);
    expect(endpoint.requests).toHaveLength(1);
    const [asked] = endpoint.requests;
    expect(asked).toMatchObject({
      method: "POST",
      path: "/token",
      headers: {
        "content-type": "application/x-www-form-urlencoded",
        authorization: `Basic ${Buffer.from("client+id:s%3Aecret").toString("base64")}`,
      },
    });
    expect(asked?.body.toString()).toBe("grant_type=client_credentials&scope=a+b&audience=https%3A%2F%2Fapi.example");
    expect(bearers(receiver)).toEqual(["Bearer one", "Bearer one", "Bearer one"]);
  });

  it("is renewed before it ends, while requests go on with the old one", async () => {
    await using endpoint = await startReceiver({ script: [token("one"), 503, token("two"), token("three")] });
    await using receiver = await startReceiver();
    const clock = testClock();
    await using line = await openHttps({ clock });
    const send = () => line.send({ url: receiver.url(), credentials: oauth2Of(endpoint) });
    await send();
    await clock.advance(539_000);
    await send();
    expect(endpoint.requests).toHaveLength(1);
    // The last tenth of its life, at most a minute: a renewal that fails is made again, not at once.
    await clock.advance(1_000);
    await send();
    await endpoint.waitFor(2);
    await send();
    await clock.advance(10_000);
    await send();
    await endpoint.waitFor(3);
    await clock.advance(590_000);
    await send();
    expect(bearers(receiver).slice(0, 5)).toEqual(Array(5).fill("Bearer one"));
    expect(bearers(receiver)[5]).toMatch(/^Bearer (two|three)$/);
  });

  it("is dropped once when the receiver answers 401", async () => {
    await using endpoint = await startReceiver({ script: [token("one"), token("two"), token("three")] });
    await using receiver = await startReceiver({ script: [401, 401, 401, 200, 401, 200] });
    await using line = await openHttps({});
    const send = () => line.send({ url: receiver.url(), credentials: oauth2Of(endpoint) });
    for (let i = 0; i < 6; i++) await send();
    expect(bearers(receiver)).toEqual(["one", "two", "two", "two", "two", "three"].map((one) => `Bearer ${one}`));
  });

  it("belongs to one subscription, and to the credentials that it was given for", async () => {
    let count = 0;
    await using endpoint = await startReceiver({ script: () => token(String(++count)) });
    await using receiver = await startReceiver();
    await using line = await openHttps({});
    const from = (subscriptionId: string, more: Partial<Oauth2> = {}) =>
      line.send({ url: receiver.url(), subscriptionId, credentials: oauth2Of(endpoint, more) });
    await from("sub_1");
    await from("sub_2");
    await from("sub_1", { clientSecret: "changed" });
    await from("sub_1", { clientSecret: "changed" });
    line.transport.forget?.("sub_1");
    await from("sub_1", { clientSecret: "changed" });
    expect(bearers(receiver)).toEqual(["1", "2", "3", "3", "4"].map((one) => `Bearer ${one}`));
  });

  it("stands in what must not be shown of the answer", async () => {
    await using endpoint = await startReceiver({ script: [token("tok.en-of_the-test")] });
    await using receiver = await startReceiver();
    await using line = await openHttps({});
    expect(await line.send({ url: receiver.url(), credentials: oauth2Of(endpoint) })).toMatchObject({
      hidden: ["tok.en-of_the-test"],
    });
  });
});

describe("a token endpoint that gives no token is the outcome of the attempt", () => {
  const json = (status: number, body: unknown): Step => ({ do: "reply", status, body: JSON.stringify(body) });
  it.each([
    [json(401, { error: "invalid_client", error_description: "<b>10.0.0.1</b>" }), "answered 401 (invalid_client)"],
    [json(400, { error: "<script>" }), "answered 400"],
    [{ do: "reply", status: 302, headers: { location: "https://127.0.0.1/" } } as const, "answered 302"],
    [json(200, { token_type: "bearer" }), "holds no access token"],
    [json(200, { access_token: "a\r\nb" }), "holds no access token"],
    [json(200, { access_token: "a", token_type: "mac" }), "gave no bearer token"],
    [json(200, { access_token: "a".repeat(8_193) }), "more than 8192 characters"],
    [{ do: "reply", body: "hello" } as const, "holds no access token"],
    [{ do: "flood", bytes: 200_000 } as const, "holds no access token"],
    [{ do: "reset" } as const, "could not be asked (reset)"],
    [{ do: "raw", text: "nonsense\r\n\r\n" } as const, "could not be asked (protocol)"],
  ] as readonly (readonly [Step, string])[])("%#: %s", async (step, detail) => {
    await using endpoint = await startReceiver({ script: [step, token("after")] });
    await using receiver = await startReceiver();
    await using line = await openHttps({});
    const send = () => line.send({ url: receiver.url(), credentials: oauth2Of(endpoint) });
    expect(await send()).toEqual({ kind: "error", error: "token", detail: expect.stringContaining(detail) });
    expect(receiver.requests).toHaveLength(0);
    expect(await send()).toMatchObject({ status: 200 });
  });

  it("within the time of the attempt when it hangs, and others are not held up", async () => {
    await using endpoint = await startReceiver({ otherwise: { do: "hang" } });
    await using receiver = await startReceiver();
    await using line = await openHttps({});
    const hanging = line.send({ url: receiver.url(), credentials: oauth2Of(endpoint), timeoutMs: 1_500 });
    await endpoint.waitFor(1);
    expect(await line.send({ url: receiver.url(), subscriptionId: "sub_2" })).toMatchObject({ status: 200 });
    expect(await hanging).toMatchObject({ kind: "error", error: expect.stringMatching(/timeout|token/) });
    expect(receiver.requests).toHaveLength(1);
  });

  it("also when the guard refuses its address, which is not told", async () => {
    await using receiver = await startReceiver();
    await using line = await openHttps({});
    const credentials = { oauth2: { tokenUrl: "https://10.1.2.3/token", clientId: "a", clientSecret: "b" } };
    expect(await line.send({ url: receiver.url(), credentials })).toEqual({
      kind: "error",
      error: "token",
      detail: "the token endpoint could not be asked (guard): the host is not on the public internet",
    });
  });
});
