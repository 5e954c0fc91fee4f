// What is wrong with the options of a transport is a problem of the config: none is ignored in silence.
import { describe, expect, it } from "vitest";
import manifest from "../../package.json" with { type: "json" };
import { toAmqp } from "../../plugins/transport/amqp.ts";
import { toFile } from "../../plugins/transport/file.ts";
import { https } from "../../plugins/transport/https.ts";
import { toKafka } from "../../plugins/transport/kafka.ts";
import { toMail } from "../../plugins/transport/mail.ts";
import { toNats } from "../../plugins/transport/nats.ts";
import { toRedisStream } from "../../plugins/transport/redis-stream.ts";

const TRANSPORTS = {
  https: [https, { keepAliveMs: 0, maxIdle: 0, maxAgeMs: 1, http2: true, hosts: {}, proxy: "http://proxy:3128" }],
  toAmqp: [toAmqp, { name: "bus", url: "amqp://rabbit" }],
  toFile: [toFile, { name: "bus", dir: "out", maxBytes: 1_024, keep: 1 }],
  toKafka: [
    toKafka,
    {
      ...{ name: "bus", brokers: ["kafka:9092"], key: "keyId", tls: { caFile: "ca.pem" } },
      sasl: { mechanism: "PLAIN", username: "relay", password: "secret" },
    },
  ],
  toMail: [
    toMail,
    {
      ...{ name: "ops", server: "smtp://mail", from: "a@b.example", to: ["*@b.example"], starttls: true },
      ...{ user: "u", password: "p", tls: { caFile: "ca" } },
    },
  ],
  toNats: [
    toNats,
    { name: "bus", servers: "nats://a", user: "u", password: "p", token: "t", credentials: "c", tls: { caFile: "ca" } },
  ],
  toRedisStream: [toRedisStream, { name: "bus", url: "redis://redis", maxLen: 1 }],
} as const;

describe.each(Object.entries(TRANSPORTS))("%s", (_, [make, options]) => {
  const problems = (given: object) => (make as (given: object) => ReturnType<typeof https>)(given).problems;

  it("takes every option that it documents, and names one that it does not have", () => {
    expect(problems(options)).toEqual([]);
    expect(problems({ ...options, bogus: 1 })).toEqual([{ path: "bogus", message: "is not an option" }]);
  });
});

it("https names wrong bounds of its connections", () => {
  const wrong = { keepAliveMs: "4s", maxIdle: -1, maxAgeMs: 0.5, http2: "yes" };
  expect(https(wrong as never).problems).toEqual([
    { path: "keepAliveMs", message: "must be a whole number, 0 or more" },
    { path: "maxIdle", message: "must be a whole number, 0 or more" },
    { path: "maxAgeMs", message: "must be a whole number, 0 or more" },
    { path: "http2", message: "must be true or false" },
  ]);
});

it("an AMQP transport needs the package that the AMQP source needs, and no other client is asked for", () => {
  const { peerDependencies, peerDependenciesMeta } = manifest;
  const clients = (names: object): readonly string[] => Object.keys(names).filter((name) => /amqp|rabbit/.test(name));
  expect(clients(peerDependencies)).toEqual(["amqplib"]);
  expect(clients(peerDependenciesMeta)).toEqual(["amqplib"]);
});
