// Every way in which what the relay depends on can refuse it: whoever must act reads what happened, and what to do.
import { execFile } from "node:child_process";
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { promisify } from "node:util";
import { createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { createServer as createTlsServer, type TlsOptions } from "node:tls";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { attemptView } from "../../core/api/resources/attempts.ts";
import { StartError } from "../../core/model/errors.ts";
import type { Attempt } from "../../core/model/attempt.ts";
import type { SourcePlugin, TransportPlugin } from "../../core/ports/plan.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { fromKafka } from "../../plugins/source/kafka.ts";
import { fromMqtt } from "../../plugins/source/mqtt.ts";
import { fromSqs } from "../../plugins/source/sqs.ts";
import { fromMysql } from "../../plugins/source/mysql.ts";
import { fromPubSub } from "../../plugins/source/pubsub.ts";
import { fromPostgres } from "../../plugins/source/postgres.ts";
import { fromRedisStream } from "../../plugins/source/redis-stream.ts";
import { postgres } from "../../plugins/storage/postgres.ts";
import { redis } from "../../plugins/storage/redis.ts";
import { toAmqp } from "../../plugins/transport/amqp.ts";
import { toKafka } from "../../plugins/transport/kafka.ts";
import { toMqtt } from "../../plugins/transport/mqtt.ts";
import { toPubSub } from "../../plugins/transport/pubsub.ts";
import { toS3 } from "../../plugins/transport/s3.ts";
import { toSqs } from "../../plugins/transport/sqs.ts";
import { toNats } from "../../plugins/transport/nats.ts";
import { toRedisStream } from "../../plugins/transport/redis-stream.ts";
import { setUp, whenNotReady } from "../support/bus-bench.ts";
import { makeAuthority, testAuthority, type KeyPair } from "../support/certificates.ts";
import { freePort } from "../../tools/free-port.ts";
import { testFolder } from "../support/folder.ts";
import { openHttps } from "../support/https.ts";
import { openSource } from "../support/message-plugin.ts";
import { startMosquitto } from "../support/mosquitto.ts";
import { AWS_LOGIN, needsMoto, startMoto, type Moto } from "../support/moto.ts";
import { needs } from "../support/needs.ts";
import { type KafkaServer, needsKafka, startKafka } from "../support/kafka.ts";
import { startMysql, type MysqlServer } from "../support/mysql.ts";
import { startNats } from "../support/nats.ts";
import { pluginContext } from "../support/plugin-context.ts";
import { startPostgres, type PostgresServer } from "../support/postgres.ts";
import { needsPubSub, PROJECT, startPubSub } from "../support/pubsub.ts";
import { startRedis, type RedisServer } from "../support/redis.ts";

/** The words of a next step. */
const NEXT = /\b(?:see (?:that|whether)|give|install|let it|use a|show a|renew)\b/;

const files = testFolder();
const caFile = join(files, "ca.pem");
const servers: Server[] = [];
const sockets: Socket[] = [];
let pair: KeyPair;
let closed = 0;
/** Speaks HTTP; TLS with a certificate of nobody's; TLS with the tests' own, but no protocol behind it. */
const at = { http: 0, strange: 0, tls: 0 };

const listen = async (server: Server): Promise<number> => {
  servers.push(server);
  server.on("connection", (socket: Socket) => void sockets.push(socket));
  await new Promise<void>((listening) => void server.listen(0, "127.0.0.1", listening));
  return (server.address() as AddressInfo).port;
};
const http = (): Server =>
  createServer((socket) =>
    socket
      .on("error", () => {})
      .once("data", () => socket.end("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")),
  );
const tls = (options: TlsOptions): Server =>
  createTlsServer(options, (socket) => socket.on("error", () => {}).end()).on("tlsClientError", () => {});

beforeAll(async () => {
  const authority = await testAuthority();
  writeFileSync(caFile, authority.ca);
  pair = await authority.issue(["localhost", "127.0.0.1"]);
  const strange = await (await makeAuthority(Date.now(), "Nobody")).issue(["localhost", "127.0.0.1"]);
  closed = await freePort();
  Object.assign(at, {
    http: await listen(http()),
    strange: await listen(tls(strange)),
    tls: await listen(tls(pair)),
  });
});
afterAll(async () => {
  for (const socket of sockets) socket.destroy();
  for (const server of servers) await new Promise((closed) => void server.close(closed));
});

describe("a receiver", () => {
  /** What the log says of it, and what the owner of the key reads. */
  async function told(port: number, over: { readonly host?: string } = {}) {
    await using line = await openHttps({ guard: { allow: ["127.0.0.1:*", "localhost:*", "hooks.invalid:*"] } });
    const reply = await line.send({ url: `https://${over.host ?? "127.0.0.1"}:${port}/` });
    if (reply.kind !== "error") throw new Error(`it answers: ${reply.kind}`);
    const made: Attempt = {
      cycle: 0,
      number: 1,
      startedAt: 0,
      durationMs: 0,
      error: reply.error,
      detail: reply.detail,
    };
    const { detail } = attemptView({ ordinal: "1", subscriptionId: "sub_1" } as never, made) as { detail: string };
    return { stage: reply.error, log: reply.detail, detail };
  }
  const serve = (options: TlsOptions) => listen(tls(options));
  const issue = async (names: readonly string[], days?: readonly [number, number]) => {
    const day = 86_400_000;
    const validity = days && { from: Date.now() + days[0] * day, until: Date.now() + days[1] * day };
    return (await testAuthority()).issue(names, validity);
  };

  it.each<[string, () => Promise<number> | number, string, RegExp]>([
    ["where nothing listens", () => closed, "connect", /nothing listens there \(ECONNREFUSED/],
    ["that speaks no TLS", () => at.http, "tls", /it speaks no TLS \(ERR_SSL/],
    ["whose authority is unknown", () => at.strange, "tls", /not trusted here: .* \(UNABLE_TO/],
    ["for another name", async () => serve(await issue(["other.example.com"])), "tls", /does not match/],
    ["whose certificate has ended", async () => serve(await issue(["127.0.0.1"], [-9, -2])), "tls", /has ended/],
    [
      "that speaks old TLS only",
      () => serve({ ...pair, maxVersion: "TLSv1.1", minVersion: "TLSv1", ciphers: "ALL:@SECLEVEL=0" }),
      "tls",
      /protocol version|unsupported protocol/i,
    ],
    [
      "that closes in the handshake",
      () => listen(createServer((socket) => void socket.once("data", () => socket.end()).on("error", () => {}))),
      "tls",
      /closed|cut/,
    ],
    [
      "that wants a client certificate",
      async () =>
        serve({
          ...pair,
          ca: (await testAuthority()).ca,
          requestCert: true,
          rejectUnauthorized: true,
          maxVersion: "TLSv1.2",
        }),
      "tls",
      /./,
    ],
  ])("%s", async (_, port, stage, cause) => {
    const read = await told(await port());
    expect(read).toMatchObject({ stage, detail: expect.stringMatching(cause), log: expect.stringMatching(cause) });
    expect(read.detail).toMatch(NEXT);
    expect(read.detail).not.toMatch(/127\.0\.0\.1:\d|other\.example/);
  });

  it("whose name is unknown", async () => {
    const read = await told(443, { host: "hooks.invalid" });
    expect(read).toMatchObject({ stage: "dns", detail: expect.stringMatching(/^hooks\.invalid (?:has no|cannot)/) });
    expect(read.detail).toMatch(NEXT);
  });
});

describe.skipIf(needs("redis") !== undefined)("Redis", () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await startRedis();
    await server.command("ACL", "SETUSER", "reader", "on", ">right", "+@connection", "+info");
    await server.command("CONFIG", "SET", "requirepass", "right");
  });
  afterAll(() => server?.[Symbol.asyncDispose]());

  const ways: readonly [string, () => string, RegExp][] = [
    ["a wrong password", () => `redis://:wrong@127.0.0.1:${server.port}`, /WRONGPASS .*user and password/],
    ["no password", () => `redis://127.0.0.1:${server.port}`, /NOAUTH .*user and password/],
    ["a wrong user", () => `redis://nobody:right@127.0.0.1:${server.port}`, /WRONGPASS .*user and password/],
    ["a user without rights", () => `redis://reader:right@127.0.0.1:${server.port}`, /NOPERM|no permissions/],
    ["TLS on a plain port", () => `rediss://:right@127.0.0.1:${server.port}`, /ETIMEDOUT.*speaks TLS/],
    ["a strange certificate", () => `rediss://:right@127.0.0.1:${at.strange}`, /not trusted here/],
    ["no TLS on a TLS port", () => `redis://127.0.0.1:${at.tls}`, /closed|cut/],
    ["another protocol", () => `redis://127.0.0.1:${at.http}`, /protocol/i],
    ["nothing there", () => `redis://127.0.0.1:${closed}`, /nothing listens there \(ECONNREFUSED 127\.0\.0\.1:\d+\)/],
    ["an unknown name", () => "redis://redis.invalid:6379", /name/],
  ];

  it.each(ways)("as storage, with %s", async (_, url, cause) => {
    const given = url();
    const opening = async () => redis({ url: given }).setup(pluginContext(systemClock(), files));
    const refusal = await opening().then(
      () => undefined,
      (error: unknown) => error as StartError,
    );
    expect(refusal).toBeInstanceOf(StartError);
    expect(refusal?.message).toMatch(cause);
    expect(refusal?.message).toMatch(NEXT);
    expect(refusal?.message).toContain(`Redis at ${new URL(given).host} cannot be used: `);
    expect(refusal?.message).not.toContain("right@");
  });

  it.each(ways)("as source, with %s", async (_, url, cause) => {
    const why = await awayOf(fromRedisStream({ url: url(), stream: "s", group: "g" }));
    expect(why).toMatch(cause);
    expect(why).toMatch(NEXT);
  });
});

describe.skipIf(needs("postgres") !== undefined)("a PostgreSQL as storage", { timeout: 60_000 }, () => {
  let server: PostgresServer;
  let plain: PostgresServer;
  beforeAll(async () => {
    const authority = await testAuthority();
    const { cert, key } = await authority.issue(["127.0.0.1"]);
    [server, plain] = await Promise.all([
      startPostgres({ secured: { cert, key, ca: authority.ca, password: "right" } }),
      startPostgres(),
    ]);
    await plain.query("CREATE ROLE reader LOGIN");
    await plain.query("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0");
  }, 120_000);
  afterAll(async () => {
    await server?.[Symbol.asyncDispose]();
    await plain?.[Symbol.asyncDispose]();
  });
  const secured = (change: (url: URL) => void): string => {
    const url = new URL(server.url);
    change(url);
    return url.href;
  };
  const open = (change: (url: URL) => void): string => {
    const url = new URL(plain.url);
    change(url);
    return url.href;
  };

  it.each<[string, () => string, RegExp]>([
    [
      "a wrong password",
      () => secured((url) => (url.password = "wrong")),
      /password authentication failed.*user and password/,
    ],
    ["no password", () => secured((url) => (url.password = "")), /password.*user and password/],
    [
      "no TLS, where only TLS is let in",
      () => secured((url) => (url.search = "")),
      /pg_hba\.conf.*let pg_hba\.conf admit/,
    ],
    [
      "TLS on a plain port",
      () => open((url) => (url.search = "?sslmode=verify-full")),
      /does not support SSL.*(see whether|let it)/,
    ],
    [
      "an authority that is not trusted here",
      () => secured((url) => (url.search = "?sslmode=verify-full")),
      /not trusted here|self-signed/i,
    ],
    [
      "a database that is not there",
      () => open((url) => (url.pathname = "/none")),
      /database "none" does not exist.*make it/,
    ],
    [
      "a role that is not there",
      () => open((url) => (url.username = "nobody")),
      /role "nobody" does not exist.*user and password|let pg_hba/,
    ],
    [
      "a role without rights",
      () => open((url) => (url.username = "reader")),
      /may not make the schema relay.*let its owner/,
    ],
    ["another encoding", () => open((url) => (url.pathname = "/latin")), /encoding LATIN1: make one with UTF8/],
    ["another protocol", () => `postgres://127.0.0.1:${at.http}/db`, /closed|terminated|see whether/],
    [
      "nothing there",
      () => `postgres://127.0.0.1:${closed}/db`,
      /nothing listens there \(ECONNREFUSED 127\.0\.0\.1:\d+\)/,
    ],
    ["an unknown name", () => "postgres://postgres.invalid:5432/db", /name/],
  ])("with %s", async (_, url, cause) => {
    const given = url();
    const refusal = await Promise.resolve(postgres({ url: given }).setup(pluginContext(systemClock(), files))).then(
      () => undefined,
      (error: unknown) => error as StartError,
    );
    expect(refusal).toBeInstanceOf(StartError);
    expect(refusal?.message).toMatch(cause);
    expect(refusal?.message).toContain(new URL(given).host);
    expect(refusal?.message).not.toMatch(/right@|wrong/);
  });
});

/** Why a source has no upstream. */
async function awayOf(plugin: SourcePlugin): Promise<string> {
  const { source, desk, until } = await openSource(plugin);
  await source.start(desk.intake.accept, { durability: "fsync" });
  await until(() => source.readiness?.() !== undefined);
  const why = source.readiness?.() ?? "";
  await source.stop();
  return why;
}

/** Why a transport cannot send. */
async function notReady(plugin: TransportPlugin): Promise<string> {
  const transport = await setUp(plugin);
  let why = "";
  for (let tries = 0; tries < 500 && !why.includes(": "); tries++) {
    why = (await whenNotReady(transport)) ?? "";
    await new Promise((turned) => void setTimeout(turned, 10));
  }
  await transport.dispose();
  return why;
}

describe("a bus", () => {
  const host = (port: number): string => `127.0.0.1:${port}`;
  const buses: readonly [string, (port: number, secure: boolean) => TransportPlugin][] = [
    [
      "RabbitMQ",
      (port, secure) =>
        toAmqp({ name: "bus", url: `amqp${secure ? "s" : ""}://${host(port)}`, ...(secure && { tls: { caFile } }) }),
    ],
    ["NATS", (port, secure) => toNats({ name: "bus", servers: host(port), ...(secure && { tls: { caFile } }) })],
    ["Kafka", (port, secure) => toKafka({ name: "bus", brokers: [host(port)], ...(secure && { tls: { caFile } }) })],
    [
      "MQTT",
      (port, secure) =>
        toMqtt({ name: "bus", url: `mqtt${secure ? "s" : ""}://${host(port)}`, ...(secure && { tls: { caFile } }) }),
    ],
    [
      "SQS",
      (port, secure) =>
        toSqs({
          name: "bus",
          endpoint: `http${secure ? "s" : ""}://${host(port)}`,
          ...AWS_LOGIN,
          ...(secure && { tls: { caFile } }),
        }),
    ],
    [
      "S3",
      (port, secure) =>
        toS3({
          ...{ name: "bus", bucket: "archive", endpoint: `http${secure ? "s" : ""}://${host(port)}`, ...AWS_LOGIN },
          ...(secure && { tls: { caFile } }),
        }),
    ],
    [
      "Redis",
      (port, secure) =>
        toRedisStream({
          name: "bus",
          url: `redis${secure ? "s" : ""}://${host(port)}`,
          ...(secure && { tls: { caFile } }),
        }),
    ],
  ];
  const refusals: readonly [string, () => number, boolean, RegExp][] = [
    ["is not there", () => closed, false, /ECONNREFUSED/],
    ["has a strange certificate", () => at.strange, true, /not trusted here/],
  ];
  for (const [name, make] of buses)
    // A server of NATS speaks before TLS begins.
    it.each(refusals.filter(([, , secure]) => name !== "NATS" || !secure))(
      `of ${name} that %s`,
      { timeout: 30_000 },
      async (_, port, secure, cause) => {
        const why = await notReady(make(port(), secure));
        expect(why).toMatch(/^is not connected: /);
        expect(why).toMatch(cause);
        expect(why).toMatch(NEXT);
      },
    );

  it("of NATS with another password", async (test) => {
    const missing = needs("nats");
    if (missing !== undefined) return test.skip(missing);
    await using server = await startNats(["--user", "relay", "--pass", "right"]);
    const servers = server.url;
    const why = await notReady(toNats({ name: "bus", servers, user: "relay", password: "wrong" as never }));
    expect(why).toMatch(/Authorization Violation.*user and password/i);
  });
});

describe.skipIf(needsKafka() !== undefined)("Kafka with another password", { timeout: 120_000 }, () => {
  let server: KafkaServer;
  beforeAll(async () => {
    const [port, controller] = [await freePort(), await freePort()];
    const login = "org.apache.kafka.common.security.plain.PlainLoginModule required";
    server = await startKafka(
      {
        listeners: `PLAINTEXT://127.0.0.1:${port},SASL://127.0.0.1:${(secured = await freePort())},CONTROLLER://127.0.0.1:${controller}`,
        "advertised.listeners": `PLAINTEXT://127.0.0.1:${port},SASL://127.0.0.1:${secured}`,
        "controller.quorum.voters": `1@127.0.0.1:${controller}`,
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.name.sasl.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": `${login} user_relay="right";`,
      },
      port,
    );
  });
  afterAll(() => server?.[Symbol.asyncDispose]());
  let secured = 0;
  const options = () => ({
    brokers: [`127.0.0.1:${secured}`],
    sasl: { mechanism: "PLAIN" as const, username: "relay", password: "wrong" as never },
  });

  it("says so as transport", async () => {
    const why = await notReady(toKafka({ name: "bus", ...options() }));
    expect(why).toMatch(/authentication failed|user and password/i);
    expect(why).toMatch(NEXT);
  });

  it("says so as source", async () => {
    const why = await awayOf(fromKafka({ ...options(), topics: ["t"], groupId: "g" }));
    expect(why).toMatch(/authentication failed|user and password/i);
    expect(why).toMatch(NEXT);
  });
});

describe("a source", () => {
  it.each<[string, () => SourcePlugin]>([
    ["Kafka", () => fromKafka({ brokers: [`127.0.0.1:${closed}`], topics: ["t"], groupId: "g" })],
    ["PostgreSQL", () => fromPostgres({ url: `postgres://127.0.0.1:${closed}/db` })],
    ["MQTT", () => fromMqtt({ url: `mqtt://127.0.0.1:${closed}`, topic: "t", clientId: "c" })],
    ["Pub/Sub", () => fromPubSub({ subscription: "relay", projectId: PROJECT, apiEndpoint: `127.0.0.1:${closed}` })],
    ["SQS", () => fromSqs({ queue: "q", endpoint: `http://127.0.0.1:${closed}`, ...AWS_LOGIN })],
    ["MySQL", () => fromMysql({ url: `mysql://127.0.0.1:${closed}/db` })],
  ])("of %s that is not there", { timeout: 30_000 }, async (_, make) => {
    const why = await awayOf(make());
    expect(why).toMatch(/nothing listens there \(ECONNREFUSED 127\.0\.0\.1:\d+\)/);
    expect(why).toMatch(NEXT);
  });
});

describe.skipIf(needsMoto() !== undefined)(`Amazon's services (${needsMoto() ?? "moto"})`, () => {
  let moto: Moto;
  beforeAll(async () => {
    moto = await startMoto({ INITIAL_NO_AUTH_ACTION_COUNT: "0" });
  });
  afterAll(() => moto?.[Symbol.asyncDispose]());
  const wrong = () => ({ name: "bus", endpoint: moto.endpoint, ...AWS_LOGIN });
  /** As Amazon says it: moto answers SQS in another protocol here. */
  async function sqs() {
    const said =
      '{"__type":"com.amazon.coral.service#InvalidClientTokenId","message":"The security token is invalid."}';
    const head = `HTTP/1.1 403 Forbidden\r\nContent-Type: application/x-amz-json-1.0\r\nContent-Length: ${said.length}\r\n\r\n`;
    const port = await listen(
      createServer((socket) => socket.on("error", () => {}).on("data", () => socket.write(head + said))),
    );
    return { ...wrong(), endpoint: `http://127.0.0.1:${port}` };
  }

  it.each<[string, () => Promise<string>]>([
    ["SQS as a source", async () => awayOf(fromSqs({ queue: "orders", ...(await sqs()) }))],
    ["SQS as a transport", async () => notReady(toSqs(await sqs()))],
    ["S3", () => notReady(toS3({ bucket: "archive", ...wrong() }))],
  ])("let nobody in whose key is wrong: %s", { timeout: 30_000 }, async (_, told) => {
    expect(await told()).toMatch(
      /(?:InvalidClientTokenId|InvalidAccessKeyId): .*: see that the access key and its secret/,
    );
  });
});

describe.skipIf(needsMoto() !== undefined)("what is named and is not there", () => {
  let moto: Moto;
  beforeAll(async () => {
    moto = await startMoto();
  });
  afterAll(() => moto?.[Symbol.asyncDispose]());

  it.each<[string, RegExp, () => Promise<string>]>([
    [
      "a queue",
      /QueueDoesNotExist|NonExistentQueue/,
      () => awayOf(fromSqs({ queue: "orders", endpoint: moto.endpoint, ...AWS_LOGIN })),
    ],
    [
      "a bucket",
      /NoSuchBucket/,
      () => notReady(toS3({ name: "bus", bucket: "nowhere", endpoint: moto.endpoint, ...AWS_LOGIN })),
    ],
  ])("is said: %s", { timeout: 30_000 }, async (_, words, told) => {
    const why = await told();
    expect(why).toMatch(words);
    expect(why).toMatch(/see that its name and the region are right, or make it$/);
  });
});

describe("Google Pub/Sub", () => {
  it("that is not there is said by a transport", { timeout: 30_000 }, async () => {
    const why = await notReady(toPubSub({ name: "bus", projectId: PROJECT, apiEndpoint: `127.0.0.1:${closed}` }));
    expect(why).toMatch(/^is not connected: .*ECONNREFUSED/);
    expect(why).toMatch(NEXT);
  });

  it("is not asked by who has no credentials, and the words say what to give", { timeout: 60_000 }, async () => {
    vi.stubEnv("METADATA_SERVER_DETECTION", "none");
    vi.stubEnv("HOME", files);
    onTestFinished(() => void vi.unstubAllEnvs());
    for (const why of [
      await awayOf(fromPubSub({ subscription: "relay", projectId: PROJECT })),
      await notReady(toPubSub({ name: "bus", projectId: PROJECT })),
    ])
      expect(why).toMatch(/Could not load the default credentials.*: give the key of a service account/);
  });

  it("says that a subscription is not there", { timeout: 30_000 }, async (test) => {
    const missing = needsPubSub();
    if (missing !== undefined) return test.skip(missing);
    await using fake = await startPubSub();
    const at = { projectId: PROJECT, apiEndpoint: `127.0.0.1:${fake.port}` };
    expect(await awayOf(fromPubSub({ subscription: "nobody", ...at }))).toMatch(
      /NOT_FOUND: subscription .*nobody.*: see that its name and the project are right, or make it$/,
    );
  });
});

it("MQTT lets nobody in without a password", { timeout: 30_000 }, async (test) => {
  const missing = needs("mosquitto");
  if (missing !== undefined) return test.skip(missing);
  await using server = await startMosquitto(["allow_anonymous false"]);
  const url = `mqtt://relay:wrong@127.0.0.1:${server.port}`;
  for (const why of [
    await awayOf(fromMqtt({ url, topic: "t", clientId: "c" })),
    await notReady(toMqtt({ name: "bus", url })),
  ]) {
    expect(why).toMatch(/Connection refused: .*authori[sz]ed/i);
    expect(why).toMatch(NEXT);
    expect(why).not.toContain("wrong");
  }
});

describe.skipIf(needs("mariadb") !== undefined)("MySQL", () => {
  let server: MysqlServer;
  beforeAll(async () => {
    server = await startMysql();
    await server.query(
      "CREATE USER reader@'127.0.0.1' IDENTIFIED BY 'right'; GRANT SELECT ON shop.* TO reader@'127.0.0.1'",
    );
    await server.query("CREATE TABLE outbox (id bigint PRIMARY KEY, event text)");
  });
  afterAll(() => server?.[Symbol.asyncDispose]());

  it.each<[string, (url: string) => { readonly url: string; readonly table?: string; readonly tls?: object }, RegExp]>([
    [
      "a wrong password",
      (url) => ({ url: url.replace("relay@", "reader:wrong@") }),
      /Access denied.*user and password/,
    ],
    [
      "a user without rights",
      (url) => ({ url: url.replace("relay@", "reader:right@") }),
      /DELETE command denied to user.*give this user/,
    ],
    ["no such database", (url) => ({ url: url.replace("/shop", "/nowhere") }), /Unknown database 'nowhere'/],
    ["no such table", (url) => ({ url, table: "nothing" }), /there is no table nothing/],
    [
      "TLS on a plain port",
      (url) => ({ url: url.replace("127.0.0.1", "localhost"), tls: { caFile } }),
      /TLS|secure|SSL/,
    ],
    ["another protocol", () => ({ url: `mysql://127.0.0.1:${at.http}/db` }), /./],
  ])("as source, with %s", { timeout: 30_000 }, async (_, options, cause) => {
    expect(await awayOf(fromMysql(options(server.url)))).toMatch(cause);
  });
});

describe.skipIf(process.getuid?.() !== 0)("a data folder that root has used first", () => {
  const NOBODY = 65_534;
  /** Works as another user, with what is loaded before. */
  async function asNobody(setUp: string, work: string): Promise<string> {
    const folder = await mkdtemp(join(tmpdir(), "relay-owner-"));
    await chmod(folder, 0o777);
    const root = new URL("../../", import.meta.url).href;
    const script = `import { writeFileSync, mkdirSync } from "node:fs";
      const { lockFolder } = await import("${root}plugins/storage/embedded/lock.ts");
      const { readKeyFile } = await import("${root}core/runtime/keys/key-file.ts");
      await import("node:sqlite");
      const at = ${JSON.stringify(folder)};
      ${setUp};
      process.setgid(${NOBODY}); process.setuid(${NOBODY});
      await ${work}.then(() => console.log("it works"), (error) => console.log(error.message));`;
    const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "-e", script]);
    await rm(folder, { recursive: true, force: true });
    return stdout;
  }

  it.each([
    ["its lock", 'writeFileSync(at + "/lock", "", { mode: 0o600 })', "lockFolder(at)"],
    [
      "its keys",
      'mkdirSync(at + "/keys", { mode: 0o700 }); writeFileSync(at + "/keys/master", "x", { mode: 0o600 })',
      'readKeyFile(at + "/keys/master")',
    ],
  ])("is named with its owner and what to do: %s", async (_, setUp, work) => {
    expect(await asNobody(setUp, work)).toMatch(/belongs to user 0, and this is user 65534: chown -R 65534 /);
  });
});
