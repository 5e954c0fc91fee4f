// Files of TLS that an option names and nobody can read: a problem of the config, which names the plug-in, option and file.
import { join } from "node:path";
import { expect, it } from "vitest";
import type { Plugin } from "../../core/ports/plugin.ts";
import { fromNats } from "../../plugins/source/nats.ts";
import { toAmqp } from "../../plugins/transport/amqp.ts";
import { toKafka } from "../../plugins/transport/kafka.ts";
import { toMail } from "../../plugins/transport/mail.ts";
import { toNats } from "../../plugins/transport/nats.ts";
import { toRedisStream } from "../../plugins/transport/redis-stream.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { testFolder } from "../support/folder.ts";
import { pluginContext } from "../support/plugin-context.ts";

const tls = { caFile: "no-such.pem" };
const mail = { name: "ops", server: "smtp://mail", from: "a@b.example", to: ["*@b.example"] };
const nats = { servers: "nats://127.0.0.1:1", stream: "ORDERS", consumer: "relay" };
const PLUGINS: readonly (readonly [name: string, plugin: Plugin<string, unknown>])[] = [
  ["amqp:bus", toAmqp({ name: "bus", url: "amqps://127.0.0.1:1", tls })],
  ["kafka:bus", toKafka({ name: "bus", brokers: ["127.0.0.1:1"], tls })],
  ["mail:ops", toMail({ ...mail, tls })],
  ["nats:bus", toNats({ name: "bus", servers: "nats://127.0.0.1:1", tls })],
  ["redis-stream:bus", toRedisStream({ name: "bus", url: "rediss://127.0.0.1:1", tls })],
  ["orders", fromNats({ ...nats, name: "orders", tls })],
];

it.each(PLUGINS)("a file of %s that cannot be read is a problem of the config", async (name, plugin) => {
  const configDir = testFolder();
  const file = join(configDir, tls.caFile);
  const message = `names a file that cannot be read (ENOENT): ${file}`;
  expect(plugin.problems).toEqual([]);
  expect(plugin.fileProblems?.(configDir)).toEqual([
    { path: "tls.caFile", message: `of the plug-in ${name} ${message}` },
  ]);
  // Whoever calls `setup` without having asked is told the same.
  const context = pluginContext(systemClock(), configDir, { secret: (path) => plugin.secrets?.[path] as string });
  await expect((async () => plugin.setup(context))()).rejects.toMatchObject({
    exitCode: 78,
    message: `${name}: tls.caFile ${message}`,
  });
});

it("what is no path is named as an option that is wrong, before a file is read", () => {
  const wrong = { caFile: "", ca: "PEM" } as never;
  const found = [
    toAmqp({ name: "bus", url: "amqps://host", tls: wrong }),
    toKafka({ name: "bus", brokers: ["host:1"], tls: wrong }),
    toNats({ name: "bus", servers: "nats://host", tls: wrong }),
    toRedisStream({ name: "bus", url: "rediss://host", tls: wrong }),
  ];
  for (const plugin of found) {
    expect(plugin.problems?.map(({ path }) => path)).toEqual(["tls.caFile", "tls.ca"]);
    expect(plugin.fileProblems?.("/nonexistent")).toEqual([]);
  }
  const both = { ...nats, tls: { caFile: 7, keyFile: "" } as never };
  expect(fromNats(both).problems?.map(({ path }) => path)).toEqual(["tls.caFile", "tls.keyFile"]);
  expect(fromNats({ ...nats, tls: "ca.pem" as never }).problems?.map(({ path }) => path)).toEqual(["tls"]);
});
