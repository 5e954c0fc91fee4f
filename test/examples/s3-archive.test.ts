// The S3 archive: the law of the transport port, and requests that a store would take, by a signature that it can verify.
import { createHash, createHmac } from "node:crypto";
import { describe, expect, it } from "vitest";
import { s3Archive, signV4 } from "../../examples/s3-archive/s3-archive.ts";
import { describeTransport, systemClock, testContext, type FarSide } from "../conformance/index.ts";
import { startReceiver, type Received, type Step } from "../support/receiver.ts";

const SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
const options = (endpoint: string) => ({
  name: "archive",
  endpoint,
  bucket: "events",
  region: "eu-central-1",
  accessKeyId: "AKIAIOSFODNN7EXAMPLE",
  secretAccessKey: SECRET,
});

const hmac = (key: string | Buffer, text: string): Buffer => createHmac("sha256", key).update(text).digest();
const sha256 = (data: Buffer | string): string => createHash("sha256").update(data).digest("hex");

/** Judges a request as a store does: it signs what it has received, and compares. */
function isSigned({ method, path, headers, body }: Received): boolean {
  const [, scope = "", names = "", signature] =
    /^AWS4-HMAC-SHA256 Credential=\w+\/([\w/-]+), SignedHeaders=([\w;-]+), Signature=([\da-f]{64})$/.exec(
      headers.authorization ?? "",
    ) ?? [];
  const [day = "", region = "", service = "", end = ""] = scope.split("/");
  const lines = names.split(";").map((name) => `${name}:${String(headers[name])}\n`);
  const canonical = `${method}\n${path}\n\n${lines.join("")}\n${names}\n${sha256(body)}`;
  const text = `AWS4-HMAC-SHA256\n${String(headers["x-amz-date"])}\n${scope}\n${sha256(canonical)}`;
  const key = hmac(hmac(hmac(hmac(`AWS4${SECRET}`, day), region), service), end);
  return hmac(key, text).toString("hex") === signature && headers["x-amz-content-sha256"] === sha256(body);
}

describe("the law of the transport port", () => {
  describeTransport(it, {
    cannot: { headers: "a store keeps them as metadata" },
    async open() {
      const receiver = await startReceiver();
      const closed = await startReceiver();
      await closed.close();
      const ctx = await testContext(s3Archive(options(receiver.origin)), { clock: systemClock(), ca: receiver.ca });
      const transport = await s3Archive(options(receiver.origin)).setup(ctx);
      const lost = await s3Archive(options(closed.origin)).setup(ctx);
      let far: FarSide = { do: "answer", status: 200 };
      const waiting: (() => void)[] = [];
      const step = async (): Promise<Step> => {
        switch (far.do) {
          case "answer":
            return { do: "reply", status: far.status, ...(far.body !== undefined && { body: far.body }) };
          case "hang":
            return { do: "hang" };
          case "drip":
            return { do: "drip", everyMs: 20, status: 200 };
          case "garble":
            return { do: "raw", text: "this is no HTTP\r\n\r\n" };
          case "cut":
            return { do: "reset" };
          case "gather": {
            const { count } = far;
            await new Promise<void>((resolve) => {
              waiting.push(resolve);
              if (waiting.length >= count) for (const go of waiting.splice(0)) go();
            });
            return 200;
          }
        }
      };
      receiver.answer(step);
      return {
        transport: {
          ...transport,
          send: (request, signal) => (request.url.startsWith("s3://lost") ? lost : transport).send(request, signal),
        },
        url: "s3://archive/law",
        nowhere: "s3://lost/law",
        far: (next) => void (far = next),
        arrived: async (count) =>
          (await receiver.waitFor(count, 60_000)).map(({ body, headers }) => ({ body, headers })),
        async [Symbol.asyncDispose]() {
          await transport.dispose();
          await receiver.close();
          await ctx[Symbol.asyncDispose]();
        },
      };
    },
  });
});

describe("the S3 archive", () => {
  it("signs as the example of Amazon's documentation does", () => {
    const headers = signV4(
      {
        method: "PUT",
        path: "/test%24file.text",
        body: Buffer.from("Welcome to Amazon S3."),
        headers: {
          date: "Fri, 24 May 2013 00:00:00 GMT",
          host: "examplebucket.s3.amazonaws.com",
          "x-amz-storage-class": "REDUCED_REDUNDANCY",
        },
      },
      { accessKeyId: "AKIAIOSFODNN7EXAMPLE", secretAccessKey: SECRET, region: "us-east-1", at: Date.UTC(2013, 4, 24) },
    );
    expect(headers["authorization"]).toContain(
      "Signature=98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
    );
  });

  it("puts each delivery under one key, however often it is sent, with its signature as metadata", async () => {
    await using receiver = await startReceiver({ script: (request) => (isSigned(request) ? 200 : 403) });
    const plugin = s3Archive(options(receiver.origin));
    await using ctx = await testContext(plugin, { clock: systemClock(), ca: receiver.ca });
    const transport = await plugin.setup(ctx);
    const request = {
      url: "s3://archive/orders/eu/",
      headers: { "webhook-id": "evt_1", "webhook-signature": "v1,abc", "user-agent": "Relay" },
      body: Buffer.from('{"id":"evt_1"}'),
      timeoutMs: 10_000,
      subscriptionId: "sub_1",
      keyId: "key_1",
      messageId: "dlv_1_0",
    };
    for (let i = 0; i < 2; i++)
      expect(await transport.send(request, new AbortController().signal)).toMatchObject({ status: 200 });
    expect(receiver.requests.map(({ method, path }) => [method, path])).toEqual([
      ["PUT", "/events/orders/eu/dlv_1_0.json"],
      ["PUT", "/events/orders/eu/dlv_1_0.json"],
    ]);
    expect(receiver.requests[0]?.headers).toMatchObject({
      "x-amz-meta-webhook-id": "evt_1",
      "x-amz-meta-webhook-signature": "v1,abc",
    });
    expect(ctx.figures.get("relay_transport_archived_bytes_total")).toBe(28);
  });

  it("says that the store is away, and judges prefixes and options", async () => {
    const closed = await startReceiver();
    await closed.close();
    const plugin = s3Archive(options(closed.origin));
    await using ctx = await testContext(plugin, { clock: systemClock() });
    const transport = await plugin.setup(ctx);
    expect(transport.problems?.("s3://archive/a/b")).toBeUndefined();
    expect(transport.problems?.("s3://archive/a b")).toContain("must be s3://");
    expect(
      s3Archive({ ...options("http://store"), bucket: "", secretAccessKey: "" }).problems?.map(({ path }) => path),
    ).toEqual(["bucket", "endpoint", "secretAccessKey"]);
  });
});
