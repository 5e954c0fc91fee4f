// What is wrong with a source that only its secrets or its neighbours show: a start says so, and waits for no such upstream.
import { expect, it } from "vitest";
import { resolvePlan } from "../../config/validate.ts";
import type { ConfigError } from "../../config/problems.ts";
import type { SourcePlugin } from "../../core/ports/plan.ts";
import { secretFrom } from "../../core/model/secret-option.ts";
import { cron } from "../../plugins/source/cron.ts";
import { fromAmqp } from "../../plugins/source/amqp.ts";
import { fromPostgres } from "../../plugins/source/postgres.ts";
import { fromRedisStream } from "../../plugins/source/redis-stream.ts";
import { openSource } from "../support/message-plugin.ts";
import { testFolder } from "../support/folder.ts";

const url = secretFrom({ env: "UPSTREAM" });

it.each([
  ["fromAmqp()", fromAmqp({ url, queue: "orders" }), "amqp:// or amqps://"],
  ["fromPostgres()", fromPostgres({ url }), "postgres:// or postgresql://"],
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
