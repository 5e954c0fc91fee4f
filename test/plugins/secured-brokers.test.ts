// Sources and transports over TLS with a login, against real servers whose certificate an authority of the tests issued.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { connect as connectAmqp } from "amqplib";
import { beforeAll, describe, expect, it } from "vitest";
import type { SourcePlugin, TransportPlugin } from "../../core/ports/plan.ts";
import type { Transport } from "../../core/ports/transport.ts";
import { fromAmqp } from "../../plugins/source/amqp.ts";
import { fromMysql } from "../../plugins/source/mysql.ts";
import { fromPostgres } from "../../plugins/source/postgres.ts";
import { toAmqp } from "../../plugins/transport/amqp.ts";
import { toRedisStream } from "../../plugins/transport/redis-stream.ts";
import { sendTo, setUp, textOf, whenNotReady, whenReady } from "../support/bus-bench.ts";
import { makeAuthority, testAuthority } from "../support/certificates.ts";
import { testFolder } from "../support/folder.ts";
import { paid } from "../support/intake.ts";
import { openSource } from "../support/message-plugin.ts";
import { startMysql } from "../support/mysql.ts";
import { needs } from "../support/needs.ts";
import { outboxSql } from "../support/outbox.ts";
import { documented, startPostgres } from "../support/postgres.ts";
import { startRabbit } from "../support/rabbitmq.ts";
import { freePort } from "../../tools/free-port.ts";

/** `@` and `/` have a meaning in URLs. */
const PASSWORD = "a p@ss/word";
const LOGIN = `relay:${encodeURIComponent(PASSWORD)}`;
const folder = testFolder();
const files = { caFile: join(folder, "ca.pem"), certFile: join(folder, "cert.pem"), keyFile: join(folder, "key.pem") };
const otherCaFile = join(folder, "other.pem");
let ca: string;
let otherCa: string;
let pair: { readonly cert: string; readonly key: string };

beforeAll(async () => {
  const authority = await testAuthority();
  ca = authority.ca;
  otherCa = (await makeAuthority(Date.now(), "Another CA")).ca;
  pair = await authority.issue(["localhost", "127.0.0.1"]);
  writeFileSync(files.caFile, ca);
  writeFileSync(otherCaFile, otherCa);
  writeFileSync(files.certFile, pair.cert);
  writeFileSync(files.keyFile, pair.key);
});

const event = JSON.stringify(paid({ id: "order-17" }));

/** Starts the source, and resolves to the ids of what it stored, or to why it has no upstream, whichever is first. */
async function outcome(plugin: SourcePlugin): Promise<readonly string[] | string> {
  const { source, desk, until } = await openSource(plugin);
  await source.start(desk.intake.accept, { durability: "fsync" });
  await until(() => desk.told.length > 0 || source.readiness?.() !== undefined);
  const why = source.readiness?.();
  await source.stop();
  return why ?? desk.told.map(({ id }) => id);
}

/** Sets the transport up, sends, and resolves to what became of it. */
async function sent(
  plugin: TransportPlugin,
  url: string,
  settled: (transport: Transport) => Promise<unknown> = whenReady,
): Promise<string> {
  const transport = await setUp(plugin);
  await settled(transport);
  const reply = await sendTo(transport, url);
  await transport.dispose();
  return textOf(reply);
}

const UNTRUSTED = /certificate|issuer|UNABLE_TO/i;

describe.skipIf(needs("postgres") !== undefined)("PostgreSQL with sslmode=verify-full and a password", () => {
  it("is read, and not without its authority or with another password", async () => {
    await using server = await startPostgres({ secured: { ...pair, ca, password: PASSWORD } });
    await server.query(documented("outbox", "outbox"));
    await server.query("INSERT INTO outbox (event) VALUES ($1)", [event]);
    expect(await outcome(fromPostgres({ url: server.url }))).toEqual(["order-17"]);
    const other = new URL(server.url);
    other.searchParams.set("sslrootcert", otherCaFile);
    expect(await outcome(fromPostgres({ url: other.href }))).toMatch(UNTRUSTED);
    other.searchParams.set("sslrootcert", files.caFile);
    other.password = "wrong";
    expect(await outcome(fromPostgres({ url: other.href }))).toContain("password authentication failed");
    const plain = new URL(server.url);
    plain.search = "";
    expect(await outcome(fromPostgres({ url: plain.href }))).toContain("no encryption");
  });
});

describe.skipIf(needs("mariadb") !== undefined)("MariaDB over TLS with a password", () => {
  it("is read, and not without its authority, with another password or in clear", async () => {
    await using server = await startMysql({ secured: { ...pair, password: PASSWORD } });
    await server.query(outboxSql("mysql"));
    await server.query("INSERT INTO outbox (event) VALUES (?)", [event]);
    const tls = { caFile: files.caFile };
    expect(await outcome(fromMysql({ url: server.url, tls }))).toEqual(["order-17"]);
    expect(await outcome(fromMysql({ url: server.url, tls: { caFile: otherCaFile } }))).toMatch(UNTRUSTED);
    const wrong = server.url.replace(/:[^:@]*@/, ":wrong@");
    expect(await outcome(fromMysql({ url: wrong, tls }))).toMatch(/Access denied.*user and password/);
    expect(await outcome(fromMysql({ url: server.url }))).toMatch(/Access denied/);
  });
});

describe.skipIf(needs("rabbitmq") !== undefined)("RabbitMQ over amqps with a user", () => {
  it("is read and published to, and not without its authority or with another password", async () => {
    const port = await freePort();
    const { caFile, certFile, keyFile } = files;
    const config = [
      ...[`listeners.ssl.default = 127.0.0.1:${port}`, `ssl_options.cacertfile = ${caFile}`],
      ...[`ssl_options.certfile = ${certFile}`, `ssl_options.keyfile = ${keyFile}`],
      ...["default_user = relay", `default_pass = ${PASSWORD}`],
    ];
    await using _server = await startRabbit({ config });
    const url = `amqps://${LOGIN}@127.0.0.1:${port}`;
    const model = await connectAmqp(url, { ca });
    const channel = await model.createConfirmChannel();
    await channel.assertQueue("orders");
    await channel.assertExchange("deposits", "topic");
    await channel.bindQueue("orders", "deposits", "paid");
    channel.sendToQueue("orders", Buffer.from(event));
    await channel.waitForConfirms();
    expect(await outcome(fromAmqp({ url, queue: "orders", tls: { ca } }))).toEqual(["order-17"]);
    expect(await outcome(fromAmqp({ url, queue: "orders", tls: { ca: otherCa } }))).toMatch(UNTRUSTED);
    const wrong = url.replace(LOGIN, "relay:wrong");
    expect(await outcome(fromAmqp({ url: wrong, queue: "orders", tls: { ca } }))).toContain("ACCESS");

    const to = "amqp://bus/deposits/paid";
    expect(await sent(toAmqp({ name: "bus", url, tls: { caFile } }), to)).toContain("200");
    const got = await channel.get("orders");
    expect(got === false ? undefined : got.properties.headers).toMatchObject({ "webhook-id": "evt_1" });
    expect(await sent(toAmqp({ name: "bus", url, tls: { caFile: otherCaFile } }), to, whenNotReady)).toContain(
      "bus is away",
    );
    expect(await sent(toAmqp({ name: "bus", url: wrong, tls: { caFile } }), to, whenNotReady)).toContain("bus is away");
    await model.close();
  });
});

it("files of TLS are right options", () => {
  expect(toAmqp({ name: "bus", url: "amqps://host", tls: files }).problems).toEqual([]);
  expect(toRedisStream({ name: "bus", url: "rediss://host", tls: files }).problems).toEqual([]);
});
