// The door of the package: what it hands out, and that opening it loads no library and no plug-in that a config may not name.
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import * as door from "../../config/index.ts";

const SCRIPT = `import { registerHooks } from "node:module";
const loaded = [];
registerHooks({ resolve(specifier, context, next) {
  const found = next(specifier, context);
  loaded.push(found.url);
  return found;
} });
await import(process.argv[1]);
console.log(JSON.stringify(loaded));`;

/** Sources of messages and transports to buses, each in a folder beside its factory. */
const PLUGIN =
  /\/(?:source\/(?:amqp|cron|kafka|messages|mqtt|mysql|nats|outbox|postgres|pubsub|redis-stream|spool|sqs)|transport\/(?:amqp|buses|file|kafka|mail|mqtt|nats|pubsub|redis-stream|s3|sqs))\//;
/** What a factory judges its options by. */
const OPTIONS =
  /\/(?:address|backlog|destination|layout|library|load|options|ordering-key|plugin|secret-url|tls|tls-files|wanted)\.ts$/;

it("loads no library when it is imported, and of sources and buses the factories alone", async () => {
  const index = new URL("../../config/index.ts", import.meta.url).href;
  const run = promisify(execFile);
  const { stdout } = await run(process.execPath, ["--input-type=module", "-e", SCRIPT, index]);
  const loaded = new Set(JSON.parse(stdout) as readonly string[]);
  expect([...loaded].filter((url) => url.includes("/node_modules/"))).toEqual([]);
  expect([...loaded].filter((url) => url.endsWith("/plugins/source/nats.ts"))).toHaveLength(1);
  expect([...loaded].filter((url) => PLUGIN.test(url) && !OPTIONS.test(url))).toEqual([]);
});

it("hands out every factory, and the errors that a plug-in may throw", () => {
  const names = ["defineRelay", "memory", "sqlite", "filesystem", "redis", "unstorage", "http", "spool", "https"];
  for (const name of [
    ...names,
    "accounts",
    "jwt",
    "otlp",
    "fromMysql",
    "fromPostgres",
    "fromRedisStream",
    "cron",
    "replay",
    "retention",
    "Problem",
    "StartError",
    "StorageError",
  ])
    expect(door).toHaveProperty(name);
});
