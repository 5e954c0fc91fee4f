// Traces against a collector over real HTTP: the tree of spans, what is passed on, sampling, and a collector in trouble.
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { resolvePlan } from "../../config/validate.ts";
import { otlp, otlpOfEnvironment, type OtlpOptions } from "../../plugins/observer/otlp.ts";
import type { OtlpSpan } from "../../plugins/observer/otlp/exporter.ts";
import { Exporter } from "../../plugins/observer/otlp/exporter.ts";
import { readSettings } from "../../plugins/observer/otlp/settings.ts";
import { childOf, derivedFrom, parseTraceparent, traceparent } from "../../plugins/observer/otlp/trace-context.ts";
import { testClock } from "../support/clock.ts";
import { quietLog, quietMetrics } from "../support/quiet.ts";
import { startReceiver, type Receiver } from "../support/receiver.ts";
import { startRelay } from "../support/relay.ts";
import { until } from "../support/until.ts";

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const PARENT = "b7ad6b7169203331";

interface Sent {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly kind: number;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes: readonly { readonly key: string; readonly value: Readonly<Record<string, unknown>> }[];
  readonly status: { readonly code?: number; readonly message?: string };
}
const attribute = (span: Sent | undefined, name: string): unknown =>
  Object.values(span?.attributes.find(({ key }) => key === name)?.value ?? {})[0];

interface Collector extends AsyncDisposable {
  readonly url: string;
  readonly host: string;
  readonly spans: Sent[];
  readonly heads: IncomingHttpHeaders[];
  readonly bodies: string[];
  waitFor(count: number): Promise<readonly Sent[]>;
}

/** Takes `POST /v1/traces` as a collector does. */
async function startCollector(): Promise<Collector> {
  const spans: Sent[] = [];
  const heads: IncomingHttpHeaders[] = [];
  const bodies: string[] = [];
  const server = createServer((request, response) => {
    let text = "";
    request.setEncoding("utf8").on("data", (part: string) => (text += part));
    request.on("end", () => {
      expect(`${request.method} ${request.url}`).toBe("POST /v1/traces");
      heads.push(request.headers);
      bodies.push(text);
      const body = JSON.parse(text) as { resourceSpans: { scopeSpans: { spans: Sent[] }[] }[] };
      spans.push(...body.resourceSpans.flatMap((one) => one.scopeSpans.flatMap((scope) => scope.spans)));
      response.writeHead(200, { "content-type": "application/json" }).end("{}");
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    host: `127.0.0.1:${port}`,
    spans,
    heads,
    bodies,
    async waitFor(count) {
      await until(() => spans.length >= count);
      return spans;
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const env = (collector: Collector, more: Record<string, string> = {}) => ({
  OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
  OTEL_BSP_SCHEDULE_DELAY: "20",
  ...more,
});

describe("the spans of a relay", () => {
  let receiver: Receiver;
  beforeAll(async () => void (receiver = await startReceiver()));
  afterAll(() => receiver.close());

  it("go from the publisher's over publish, delivery and attempts to the receiver", async () => {
    await using collector = await startCollector();
    const traces = env(collector, {
      OTEL_SERVICE_NAME: "hooks",
      OTEL_RESOURCE_ATTRIBUTES: "deployment.environment.name=test,team=a%2Cb",
      OTEL_EXPORTER_OTLP_HEADERS: "x-tenant=t%201,x-other=2",
    });
    await using relay = await startRelay({ observers: [otlp({ env: traces })] });
    receiver.answer([500]);
    const first = receiver.requests.length;
    await relay.call("POST", "/api-keys/key_1/webhooks", {
      body: { url: receiver.url("/secret?token=s3cret"), events: ["*"] },
    });
    const incoming = `00-${TRACE}-${PARENT}-01`;
    const answer = await relay.publish({ type: "a:b", keyId: "key_1", data: 1, id: "one" }, { traceparent: incoming });
    expect(answer.status).toBe(202);
    await receiver.waitFor(first + 2);
    const spans = await collector.waitFor(4);
    const publish = spans.find(({ name }) => name === "publish");
    const delivery = spans.find(({ name }) => name === "delivery");
    const attempts = spans.filter(({ name }) => name === "attempt");
    expect(new Set(spans.map(({ traceId }) => traceId))).toEqual(new Set([TRACE]));
    expect(publish?.parentSpanId).toBe(PARENT);
    expect(delivery?.parentSpanId).toBe(publish?.spanId);
    expect(attempts.map(({ parentSpanId }) => parentSpanId)).toEqual([delivery?.spanId, delivery?.spanId]);
    expect(new Set(spans.map(({ spanId }) => spanId)).size).toBe(4);
    // The receiver is told of the very attempt that it gets.
    const told = receiver.requests.slice(first).map(({ headers }) => headers["traceparent"]);
    expect(told).toEqual(attempts.map(({ spanId }) => `00-${TRACE}-${spanId}-01`));
    expect(attribute(publish, "messaging.message.id")).toBe("one");
    expect(attempts.map((one) => attribute(one, "http.response.status_code"))).toEqual(["500", "200"]);
    expect(attempts.map(({ status }) => status)).toEqual([{ code: 2, message: "status 500" }, {}]);
    expect(attribute(delivery, "relay.attempts")).toBe("2");
    expect(delivery?.status).toEqual({});
    for (const { startTimeUnixNano, endTimeUnixNano } of spans) {
      expect(BigInt(endTimeUnixNano)).toBeGreaterThanOrEqual(BigInt(startTimeUnixNano));
      expect(Number(BigInt(startTimeUnixNano) / 1_000_000n)).toBeGreaterThan(Date.now() - 60_000);
    }
    // Neither the webhook's path nor its query is told to anybody.
    expect(collector.bodies.join("")).not.toMatch(/s3cret|\/secret/);
    expect(collector.heads[0]).toMatchObject({ "x-tenant": "t 1", "x-other": "2", "content-type": "application/json" });
    const [body = ""] = collector.bodies;
    expect(body).toContain('{"key":"service.name","value":{"stringValue":"hooks"}}');
    expect(body).toContain('{"key":"team","value":{"stringValue":"a,b"}}');
  });

  it("begin a trace where the publisher has none, and follow its decision not to be recorded", async () => {
    await using collector = await startCollector();
    await using relay = await startRelay({ observers: [otlp({ env: env(collector) })] });
    receiver.answer(() => 200);
    const first = receiver.requests.length;
    await relay.call("POST", "/api-keys/key_1/webhooks", { body: { url: receiver.url(), events: ["*"] } });
    const unsampled = { traceparent: `00-${TRACE}-${PARENT}-00` };
    await relay.publish({ type: "a:b", keyId: "key_1", data: 1, id: "quiet" }, unsampled);
    await relay.publish({ type: "a:b", keyId: "key_1", data: 1, id: "loud" });
    await receiver.waitFor(first + 2);
    const spans = await collector.waitFor(3);
    const told = new Map(
      receiver.requests.slice(first).map(({ headers }) => [headers["webhook-id"], String(headers["traceparent"])]),
    );
    expect(told.get("quiet")).toMatch(new RegExp(`^00-${TRACE}-[0-9a-f]{16}-00$`));
    expect(told.get("quiet")).not.toContain(PARENT);
    expect(told.get("loud")).toMatch(/^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/);
    await relay.stop();
    expect(spans).toHaveLength(3);
    expect(spans.some(({ traceId }) => traceId === TRACE)).toBe(false);
    expect(spans.find(({ name }) => name === "publish")?.parentSpanId).toBeUndefined();
  });

  it("are sent when the relay stops, and are none for what is refused but the refusal itself", async () => {
    await using collector = await startCollector();
    const traces = env(collector, { OTEL_BSP_SCHEDULE_DELAY: "600000" });
    await using relay = await startRelay({ observers: [otlp({ env: traces })] });
    expect((await relay.publish({ type: "not a name", keyId: "key_1", data: 1 })).status).toBe(400);
    expect(collector.spans).toEqual([]);
    await relay.stop();
    expect(collector.spans.map(({ name, status }) => [name, status.message])).toEqual([
      ["publish", "VALIDATION_FAILED"],
    ]);
  });

  it("are kept in by the guard when the collector is not allowed, and the relay goes on", async () => {
    await using collector = await startCollector();
    const guard = { allow: [`127.0.0.1:${receiver.port}`] };
    await using relay = await startRelay({ guard, observers: [otlp({ env: env(collector) })] });
    for (let i = 0; i < 3; i++)
      expect((await relay.publish({ type: "a:b", keyId: "key_1", data: i })).status).toBe(202);
    await relay.stop();
    expect(collector.bodies).toEqual([]);
  });

  it("do not exist without an endpoint: the publisher's context is passed on as it came", async () => {
    await using relay = await startRelay();
    const first = receiver.requests.length;
    await relay.call("POST", "/api-keys/key_1/webhooks", { body: { url: receiver.url(), events: ["*"] } });
    const incoming = `00-${TRACE}-${PARENT}-01`;
    await relay.publish({ type: "a:b", keyId: "key_1", data: 1 }, { traceparent: incoming });
    await receiver.waitFor(first + 1);
    expect(receiver.requests[first]?.headers["traceparent"]).toBe(incoming);
  });
});

describe("trace context", () => {
  const always = { ratio: 1, parentBased: true };

  it("is written as it is read", () => {
    const text = `00-${TRACE}-${PARENT}-01`;
    expect(traceparent(parseTraceparent(text))).toBe(text);
    expect(parseTraceparent(`00-${TRACE}-${PARENT}-00`).sampled).toBe(false);
    // A later version may have more behind it, and more flags.
    expect(parseTraceparent(`01-${TRACE}-${PARENT}-03-more`)).toEqual({
      traceId: TRACE,
      spanId: PARENT,
      sampled: true,
    });
  });

  it("is sampled by the ratio of trace ids, alike on every node, or as the parent is", () => {
    const parent = { traceId: TRACE, spanId: PARENT, sampled: false };
    expect(childOf(parent, always).sampled).toBe(false);
    expect(childOf(parent, { ratio: 1, parentBased: false }).sampled).toBe(true);
    expect(childOf(undefined, { ratio: 0, parentBased: true }).sampled).toBe(false);
    const chosen = Array.from({ length: 4_000 }, () => childOf(undefined, { ratio: 0.25, parentBased: true })).filter(
      (one) => one.sampled,
    );
    expect(chosen.length).toBeGreaterThan(800);
    expect(chosen.length).toBeLessThan(1_200);
    for (const { traceId } of chosen)
      expect(childOf({ traceId, spanId: PARENT, sampled: false }, { ratio: 0.25, parentBased: false }).sampled).toBe(
        true,
      );
  });

  it("of a delivery or an attempt is the same whoever makes it, and another for each", () => {
    const publish = childOf(undefined, always);
    expect(derivedFrom(publish, "dlv_1 0")).toEqual(derivedFrom({ ...publish }, "dlv_1 0"));
    const ids = ["dlv_1 0", "dlv_1 1", "dlv_2 0"].map((id) => derivedFrom(publish, id).spanId);
    expect(new Set(ids).size).toBe(3);
    for (const id of ids) expect(id).toMatch(/^[0-9a-f]{16}$/);
  });
});

describe("the exporter", () => {
  const settings = {
    ...{ url: "https://collector.example.com/v1/traces", headers: {}, timeoutMs: 100, batch: 2, queue: 4 },
    ...{ delayMs: 1_000, ratio: 1, parentBased: true, resource: {} },
  };
  const context = childOf(undefined, { ratio: 1, parentBased: true });
  const span: OtlpSpan = { context, name: "publish", kind: "server", startedAt: 0, endedAt: 1, attributes: {} };

  function made(answers: readonly (number | Error | "hang")[], retryAfter?: string) {
    const clock = testClock();
    const log = quietLog();
    const metrics = quietMetrics();
    const sent: number[] = [];
    let i = 0;
    const fetch = async (_url: string, options?: { readonly body?: string; readonly signal?: AbortSignal }) => {
      sent.push((options?.body?.match(/"spanId"/g) ?? []).length);
      const answer = answers[i++] ?? 200;
      if (answer === "hang")
        await new Promise((_, reject) =>
          options?.signal?.addEventListener("abort", () => reject(new Error("aborted"))),
        );
      if (answer instanceof Error) throw answer;
      const headers: Record<string, string> = retryAfter === undefined ? {} : { "retry-after": retryAfter };
      return { status: answer as number, headers, text: "" };
    };
    return { clock, log, metrics, sent, exporter: new Exporter({ clock, log, metrics, fetch }, settings) };
  }

  it("sends a full batch at once and the rest when its time has come", async () => {
    const { exporter, clock, sent, metrics } = made([]);
    for (let i = 0; i < 3; i++) exporter.take(span);
    await clock.advance(0);
    expect(sent).toEqual([2]);
    await clock.advance(1_000);
    expect(sent).toEqual([2, 1]);
    expect(metrics.counted.get("spans exported")).toBe(3);
    await exporter.close(10);
  });

  it("drops what does not fit, and says so once when nobody takes anything", async () => {
    const { exporter, clock, sent, log, metrics } = made([400, 400, 400, 200]);
    for (let i = 0; i < 7; i++) exporter.take(span);
    await clock.advance(5_000);
    for (let i = 0; i < 4; i++) exporter.take(span);
    await clock.advance(5_000);
    expect(sent.length).toBe(4);
    expect(metrics.counted.get("spans dropped")).toBe(3 + 6);
    expect(metrics.counted.get("spans exported")).toBe(2);
    expect(log.lines.map(({ message }) => message)).toEqual([
      "traces are not taken; an internal address must stand in guard.allow",
      "traces are taken again",
    ]);
    await exporter.close(10);
  });

  it("tries again when it is asked to, for as long as it is asked to, and not for ever", async () => {
    const { exporter, clock, sent, metrics } = made([503, new Error("refused"), 200], "7");
    exporter.take(span);
    exporter.take(span);
    await clock.advance(6_999);
    expect(sent).toEqual([2]);
    await clock.advance(1 + 2_000);
    expect(sent).toEqual([2, 2, 2]);
    expect(metrics.counted.get("spans exported")).toBe(2);
    const other = made([503, 503, 503, 503]);
    other.exporter.take(span);
    await other.clock.advance(60_000);
    expect(other.sent).toEqual([1, 1, 1]);
    expect(other.metrics.counted.get("spans dropped")).toBe(1);
  });

  it("ends in time when the collector hangs", async () => {
    const { exporter, clock, metrics } = made(["hang"]);
    exporter.take(span);
    const closed = exporter.close(500);
    await clock.advance(500);
    await closed;
    exporter.take(span);
    await clock.advance(0);
    expect(metrics.counted.get("spans dropped")).toBe(2);
  });
});

const read = (env: Record<string, string>, options: OtlpOptions = {}) => {
  const settings = readSettings(options, env);
  if (settings === "off" || "message" in settings) throw new Error(JSON.stringify(settings));
  return settings;
};

describe("the environment", () => {
  const base = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector:4318/" };

  it("names the endpoint, whole or as a base, and nothing means no traces", () => {
    expect(otlpOfEnvironment({})).toBeUndefined();
    expect(otlpOfEnvironment({ OTEL_EXPORTER_OTLP_ENDPOINT: " " })).toBeUndefined();
    expect(otlpOfEnvironment({ ...base, OTEL_SDK_DISABLED: "TRUE" })).toBeUndefined();
    expect(otlpOfEnvironment({ ...base, OTEL_TRACES_EXPORTER: "none" })).toBeUndefined();
    expect(otlpOfEnvironment(base)).toMatchObject({ kind: "observer", name: "otlp" });
    expect(read(base)).toMatchObject({
      ...{ url: "http://collector:4318/v1/traces", batch: 512, queue: 2_048, delayMs: 5_000, timeoutMs: 10_000 },
      ...{ ratio: 1, parentBased: true },
    });
    const own = { ...base, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "https://in.example.com/otlp?x=1" };
    expect(read(own).url).toBe("https://in.example.com/otlp?x=1");
  });

  it("sets sampling, headers and times", () => {
    expect(read({ ...base, OTEL_TRACES_SAMPLER: "traceidratio", OTEL_TRACES_SAMPLER_ARG: "0.1" })).toMatchObject({
      ratio: 0.1,
      parentBased: false,
    });
    expect(read({ ...base, OTEL_TRACES_SAMPLER: "parentbased_always_off" })).toMatchObject({
      ratio: 0,
      parentBased: true,
    });
    const headers = { OTEL_EXPORTER_OTLP_HEADERS: "a=1, b = x%3Dy ,", OTEL_EXPORTER_OTLP_TRACES_HEADERS: "a=2" };
    expect(read({ ...base, ...headers }).headers).toEqual({ a: "2", b: "x=y" });
    const times = { OTEL_EXPORTER_OTLP_TIMEOUT: "5", OTEL_EXPORTER_OTLP_TRACES_TIMEOUT: "7" };
    expect(read({ ...base, ...times }).timeoutMs).toBe(7);
    const service = { OTEL_SERVICE_NAME: "s", OTEL_RESOURCE_ATTRIBUTES: "service.name=other,a=b" };
    expect(read({ ...base, ...service }).resource).toEqual({ "service.name": "s", a: "b" });
  });

  it("adds the observer to a config that names none of it, and only there", () => {
    const frame = { configDir: "/nowhere", cwd: "/nowhere", settings: {} };
    const names = (config: object, env: Record<string, string>) =>
      resolvePlan(config, { ...frame, env }).observers.map(({ name }) => name);
    expect(names({}, {})).toEqual([]);
    expect(names({}, base)).toEqual(["otlp"]);
    expect(names({ observers: [otlp({ url: "https://own.example.com/v1/traces", env: {} })] }, base)).toEqual(["otlp"]);
    const other = { kind: "observer", name: "other", setup: () => ({}) };
    expect(names({ observers: [other] }, base)).toEqual(["other", "otlp"]);
  });

  it("is refused with the variable's name when it cannot be used", () => {
    const wrong: Record<string, string>[] = [
      { OTEL_EXPORTER_OTLP_ENDPOINT: "collector:4318" },
      { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "https://user:secret@host/" },
      { OTEL_EXPORTER_OTLP_PROTOCOL: "grpc" },
      { OTEL_TRACES_EXPORTER: "jaeger" },
      { OTEL_TRACES_SAMPLER: "sometimes" },
      { OTEL_TRACES_SAMPLER: "traceidratio", OTEL_TRACES_SAMPLER_ARG: "2" },
      { OTEL_BSP_MAX_QUEUE_SIZE: "-1" },
      { OTEL_EXPORTER_OTLP_HEADERS: "authorization" },
      { OTEL_EXPORTER_OTLP_HEADERS: "a=%zz-secret" },
    ];
    for (const one of wrong) {
      const name = Object.keys(one).at(-1) as string;
      const frame = { configDir: "/nowhere", cwd: "/nowhere", settings: {}, env: { ...base, ...one } };
      const resolve = (): unknown => resolvePlan({}, frame);
      expect(resolve, name).toThrow(expect.objectContaining({ exitCode: 78 }));
      expect(resolve, name).toThrow(name);
      expect(resolve, name).not.toThrow("secret");
    }
  });
});

describe("the options", () => {
  const env = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector:4318", OTEL_BSP_MAX_QUEUE_SIZE: "7" };

  it("go before the environment, which says what they leave out", () => {
    const url = "https://own.example.com/v1/traces";
    expect(read(env, { url, ratio: 0.5, resource: { "service.name": "hooks" } })).toMatchObject({
      url,
      ratio: 0.5,
      queue: 7,
      resource: { "service.name": "hooks" },
    });
  });

  it("are refused by name when they cannot be used, or name no collector", () => {
    const problem = (options: OtlpOptions) => otlp({ env: {}, ...options }).problems?.[0]?.path;
    expect(problem({ url: "collector:4318" })).toBe("url");
    expect(problem({})).toBe("url");
    const url = "https://own.example.com/v1/traces";
    expect(problem({ url })).toBeUndefined();
    expect(problem({ url, ratio: 2 })).toBe("ratio");
    expect(problem({ url, queue: 0 })).toBe("queue");
  });

  it("are switched off by the environment", async () => {
    const off = otlp({ url: "https://own.example.com/v1/traces", env: { OTEL_SDK_DISABLED: "true" } });
    expect(off.problems).toBeUndefined();
    expect(await off.setup({} as never)).toEqual({});
  });
});
