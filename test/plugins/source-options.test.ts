// The options of sources: a start says what is wrong with them, also where only secrets or neighbours show it.
import { expect, it } from "vitest";
import { resolvePlan } from "../../config/validate.ts";
import type { ConfigError } from "../../config/problems.ts";
import type { SourcePlugin } from "../../core/ports/plan.ts";
import { secretFrom } from "../../core/model/secret-option.ts";
import { cron } from "../../plugins/source/cron.ts";
import { fromAmqp } from "../../plugins/source/amqp.ts";
import { fromKafka } from "../../plugins/source/kafka.ts";
import { fromMqtt } from "../../plugins/source/mqtt.ts";
import { fromPubSub } from "../../plugins/source/pubsub.ts";
import { fromSqs } from "../../plugins/source/sqs.ts";
import { fromMysql } from "../../plugins/source/mysql.ts";
import { fromNats } from "../../plugins/source/nats.ts";
import { fromPostgres } from "../../plugins/source/postgres.ts";
import { fromRedisStream } from "../../plugins/source/redis-stream.ts";
import { openSource } from "../support/message-plugin.ts";
import { testFolder } from "../support/folder.ts";

const url = secretFrom({ env: "UPSTREAM" });
const NATS = { servers: "nats://localhost:4222", stream: "ORDERS", consumer: "relay" };
const KAFKA = { brokers: ["kafka:9092"], topics: ["orders"], groupId: "relay" };
const SASL = { mechanism: "PLAIN", username: "me", password: url };

/** Factories with options that are right, and with wrong ones whose paths are named, in order. */
const OPTIONS: readonly (readonly [(options: never) => SourcePlugin, readonly object[], object | undefined, string])[] =
  [
    [
      fromAmqp,
      [
        { url: "amqp://localhost", queue: "orders" },
        { url, queue: "orders", prefetch: 10 },
      ],
      undefined,
      "url queue",
    ],
    [fromAmqp, [], { url: "http://localhost", queue: "", prefetch: 0, extra: 1 }, "extra url queue prefetch"],
    [fromNats, [NATS, { ...NATS, servers: ["a:4222", "tls://b"], token: url }], undefined, "servers stream consumer"],
    [
      fromNats,
      [],
      { ...NATS, servers: "nats://me:secret@host", maxInFlight: 0, password: 7, extra: 1 },
      "extra servers maxInFlight password",
    ],
    [
      fromKafka,
      [KAFKA, { ...KAFKA, sasl: SASL, from: "latest" }],
      { brokers: "kafka:9092", topics: [], groupId: "", from: "now", sasl: {}, extra: 1 },
      "extra brokers topics groupId from sasl.mechanism sasl.username sasl.password",
    ],
    [
      fromPubSub,
      [{ subscription: "relay" }, { subscription: "projects/p/subscriptions/relay", projectId: "my-project" }],
      { subscription: "a b", maxInFlight: 0, projectId: "", credentials: "", apiEndpoint: "http://x", extra: 1 },
      "extra subscription maxInFlight projectId credentials apiEndpoint",
    ],
    [
      fromSqs,
      [
        { queue: "orders.fifo" },
        { queue: "https://sqs.eu-central-1.amazonaws.com/1/orders", accessKeyId: "a", secretAccessKey: url },
      ],
      { queue: "a b", maxInFlight: 0, region: "", endpoint: "x", extra: 1 },
      "extra queue maxInFlight region endpoint",
    ],
    [fromSqs, [], { queue: "orders", accessKeyId: "a" }, "secretAccessKey"],
    [
      fromMqtt,
      [{ url, topic: ["a", "b/#"], clientId: "relay-1", group: "relay", qos: 2, version: "3.1.1" }],
      {
        url: "http://x",
        topic: "",
        clientId: "a b",
        group: "a/b",
        qos: 0,
        sessionMs: 1,
        maxInFlight: 70_000,
        version: "4",
      },
      "url topic clientId group qos sessionMs maxInFlight version",
    ],
    [fromRedisStream, [{ url: "rediss://x", stream: "s", name: "my-stream-2" }], undefined, "url stream"],
    [
      fromRedisStream,
      [],
      { url: "http://x", stream: "", group: "", maxInFlight: 0, claimAfterMs: 5, nonsense: 1, keyId: "é" },
      "nonsense keyId url stream group claimAfterMs maxInFlight",
    ],
    [fromPostgres, [{ url: "postgres://x/y", table: "shop.outbox" }], { url, cursor: true, done: "mark" }, "done"],
    [
      fromPostgres,
      [],
      { url: "http://x", table: "a b", done: "burn", cursor: 1, channel: "é", pollMs: 1, maxInFlight: 0 },
      "url table done cursor channel pollMs maxInFlight",
    ],
    [
      fromPostgres,
      [
        { url, table: '"Shop"."order events"', columns: "debezium", keyId: "shop", dead: "old.bad" },
        { url, columns: { payload: "body", type: "kind", key: "who", id: "Id" } },
        { url, columns: { payload: "body" }, map: () => undefined },
      ],
      { url, table: '"a', columns: { ids: "x", id: "" }, dead: "a.b.c" },
      "table columns.ids columns.id dead",
    ],
    [fromPostgres, [], { url, columns: "debezium" }, "columns"],
    [fromPostgres, [], { url, columns: { type: "kind" } }, "columns"],
    [fromPostgres, [], { url, keyId: "a", columns: { payload: "body" } }, "columns"],
    [fromPostgres, [], { url, cursor: true, dead: "bad" }, "dead"],
    [
      fromMysql,
      [{ url: "mysql://x/y" }, { url: "mariadb://x/y", table: "`a b`", tls: {}, done: "mark", columns: { done: "x" } }],
      { url: "postgres://x", columns: 7, done: 1, cursor: true, tls: { cAFile: "x" }, pollMs: 1 },
      "cursor url columns done pollMs tls.cAFile",
    ],
  ];

const named = OPTIONS.map((row) => [row[0].name, ...row] as const);

it.each(named)("%s() names each option that is wrong, and no other", (_, factory, right, wrong, paths) => {
  const problems = (options: object | undefined) => factory(options as never).problems?.map(({ path }) => path);
  for (const options of right) expect(problems(options)).toEqual([]);
  expect(problems(wrong)).toEqual(paths.split(" "));
});

it.each([
  ["fromAmqp()", fromAmqp({ url, queue: "orders" }), "amqp:// or amqps://"],
  ["fromPostgres()", fromPostgres({ url }), "postgres:// or postgresql://"],
  ["fromMysql()", fromMysql({ url }), "mysql:// or mariadb://"],
  ["fromRedisStream()", fromRedisStream({ url, stream: "orders" }), "redis:// or rediss://"],
])("%s refuses a secret that is no URL of its system, and does not show it", async (factory, plugin, rule) => {
  for (const given of ["http://relay:hunter2@upstream", "relay:hunter2@upstream 5672"]) {
    const refused = await openSource(plugin, { secret: () => given }).catch((error: unknown) => error);
    expect(refused).toMatchObject({ exitCode: 78, message: `${factory}: url must begin with ${rule}` });
  }
});

it("refuses two sources of one name: events of theirs would have the same ids", () => {
  const folder = testFolder();
  const problems = (...sources: readonly SourcePlugin[]): ConfigError["problems"] => {
    try {
      resolvePlan({ sources }, { configDir: folder, cwd: folder, settings: { dataDir: folder, port: 0 } });
      return [];
    } catch (error) {
      return (error as ConfigError).problems;
    }
  };
  const [one, two] = [fromAmqp({ url: "amqp://a", queue: "orders" }), fromAmqp({ url: "amqp://b", queue: "orders" })];
  expect(problems(one, two)).toEqual([
    { path: "sources[1].name", message: "amqp is the name of sources[0] too: give this one a name of its own" },
  ]);
  expect(problems(one, fromAmqp({ name: "shop", url: "amqp://b", queue: "orders" }))).toEqual([]);
  // Two schedules of one type and key would make one event of a tick that they share.
  const event = { type: "day.begins", keyId: "key_1", data: {} };
  const daily = cron({ schedule: "0 7 * * *", event });
  expect(problems(one, daily, cron({ schedule: "0 7 * * 1", event }))).toEqual([
    { path: "sources[2].name", message: "cron is the name of sources[1] too: give this one a name of its own" },
  ]);
  expect(problems(daily, cron({ name: "weekly", schedule: "0 7 * * 1", event }))).toEqual([]);
});
