// /readyz names the source or transport that is away; the relay serves without it unless the config says otherwise.
import { describe, expect, it } from "vitest";
import { http } from "../../plugins/source/http.ts";
import { https } from "../../plugins/transport/https.ts";
import { sourcePlugin, transportPlugin } from "../support/plugins.ts";
import { startRelay, type TestRelay } from "../support/relay.ts";

async function probe(relay: TestRelay) {
  const { status, json } = await relay.call("GET", "/readyz", { token: null });
  const { data } = json as { readonly data: { readonly status: string; readonly parts: Record<string, unknown> } };
  return { code: status, ...data };
}
const gauge = async (relay: TestRelay, name = "ready"): Promise<string | undefined> =>
  new RegExp(`^relay_${name} (\\d)$`, "m").exec(
    (await relay.call("GET", "/metrics", { headers: { authorization: "Bearer m" } })).text,
  )?.[1];

describe("/readyz of a relay with a source that is away", () => {
  it("is degraded, which is 200, and names the source and why", async () => {
    let away: string | undefined = "no connection to RabbitMQ";
    await using relay = await startRelay({
      sources: [http(), sourcePlugin("amqp-2", { readiness: () => away })],
      metrics: { token: "m" },
    });
    const part = { ready: false, state: "no connection to RabbitMQ", required: false };
    expect(await probe(relay)).toMatchObject({
      status: "degraded",
      parts: { relay: { ready: true }, "source:amqp-2": part },
    });
    expect(await probe(relay)).toMatchObject({ code: 200 });
    expect([await gauge(relay), await gauge(relay, "parts_not_ready")]).toEqual(["1", "1"]);
    expect((await relay.publish({ type: "deposit:paid", keyId: "key_1", data: {} })).status).toBe(202);
    away = undefined;
    expect(await probe(relay)).toMatchObject({ status: "ready", parts: { "source:amqp-2": { ready: true } } });
    expect(await gauge(relay, "parts_not_ready")).toBe("0");
  });

  it("is 503 where server.readyNeeds names the source", async () => {
    await using relay = await startRelay({
      server: { host: "127.0.0.1", port: 0, readyNeeds: ["source:orders#2"] },
      sources: [sourcePlugin("orders"), sourcePlugin("orders", { readiness: () => "away" })],
      metrics: { token: "m" },
    });
    const { code, status, parts } = await probe(relay);
    expect([code, status]).toEqual([503, "not ready"]);
    expect(parts["source:orders#2"]).toEqual({ ready: false, state: "away" });
    expect(await gauge(relay)).toBe("0");
  });

  it("is the same for a transport, and has no part for plug-ins that say nothing", async () => {
    await using relay = await startRelay({
      transports: [https(), transportPlugin("bus", { readiness: () => "no connection" })],
    });
    const { parts } = await probe(relay);
    expect(Object.keys(parts)).toEqual(["relay", "storage", "auth", "transport:bus"]);
    expect(parts["transport:bus"]).toEqual({ ready: false, state: "no connection", required: false });
  });

  it("shows one short line without secrets, whatever a plug-in says, and survives one that throws", async () => {
    const saying = (readiness: () => unknown, name: string) =>
      sourcePlugin(
        name,
        { readiness: readiness as () => string },
        { secrets: { url: "nats://me:hunter-two@bus:4222" } },
      );
    await using relay = await startRelay({
      sources: [
        saying(() => "cannot log in to nats://me:hunter-two@bus:4222 with hunter-two\n\u001b[31mnow", "leaks"),
        saying(() => "x".repeat(10_000), "long"),
        saying(() => {
          throw new Error("hunter-two");
        }, "throws"),
        saying(() => {
          throw Object.create(null) as Error;
        }, "evil"),
      ],
    });
    const { parts } = await probe(relay);
    const state = (name: string): unknown => (parts[`source:${name}`] as { state?: string }).state;
    expect(state("leaks")).toBe("cannot log in to [masked] with [masked] [31mnow");
    expect(state("long")).toHaveLength(200);
    expect(state("throws")).toBe("its readiness fails: Error: [masked]");
    expect(state("evil")).toBe("its readiness fails: Error: something that cannot be read");
  });
});

describe("/readyz while publishing is refused", () => {
  const event = { type: "deposit:paid", keyId: "key_1", data: {} };

  it("is 503 when the storage is full, from the first probe on, before anybody publishes", async () => {
    await using relay = await startRelay({ intake: { reserveBytes: 1e15 }, metrics: { token: "m" } });
    const { code, status, parts } = await probe(relay);
    expect([code, status]).toEqual([503, "not ready"]);
    expect(parts["publishing"]).toEqual({
      ready: false,
      state:
        "STORAGE_FULL: The storage is nearly full. Its last space is kept for accepted events. Publish again later.",
    });
    expect([await gauge(relay), await gauge(relay, "parts_not_ready")]).toEqual(["0", "1"]);
    expect((await relay.call("GET", "/relay/status")).json.data.parts.publishing.ready).toBe(false);
    expect((await relay.publish(event)).status).toBe(503);
  });

  it("is degraded while publishers are asked to wait", async () => {
    await using relay = await startRelay({ intake: { maxPending: 1 } });
    const url = "https://127.0.0.1:9/";
    await relay.call("POST", "/api-keys/key_1/webhooks", { body: { url, events: ["*"] } });
    for (let i = 0; i < 3; i++) await relay.publish(event);
    expect((await relay.publish(event)).status).toBe(429);
    const { code, status, parts } = await probe(relay);
    expect([code, status]).toEqual([200, "degraded"]);
    expect(parts["publishing"]).toMatchObject({ ready: false, required: false });
  });
});
