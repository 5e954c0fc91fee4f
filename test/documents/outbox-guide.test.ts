// docs/outbox.md by its page alone: each table, its config and its insert, and the event that the relay lists then.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { runCommand } from "../support/command.ts";
import { TEST_ENV } from "../support/relay.ts";
import { startChild } from "../support/child-relay.ts";
import { testFolder } from "../support/folder.ts";
import { startMysql } from "../support/mysql.ts";
import { needs } from "../support/needs.ts";
import { outboxBlock, outboxConfig } from "../support/outbox.ts";
import { startPostgres } from "../support/postgres.ts";
import { eventually } from "../support/until.ts";

interface Server extends AsyncDisposable {
  readonly url: string;
  query(sql: string): Promise<unknown>;
}

const CASES: readonly (readonly [string, "postgres" | "mariadb", () => Promise<Server>, string, RegExp, string])[] = [
  [
    "own",
    "postgres",
    startPostgres,
    "key_1",
    /Shop.OutboxMessages_dead: rows without a valid event are held/,
    "order.paid",
  ],
  ["debezium", "postgres", startPostgres, "shop", /no column says when a row was made/, "OrderPaid"],
  ["mysql", "mariadb", startMysql, "key_1", /what it reads from fits/, "order.paid"],
];

describe.each(CASES)("the guide to outboxes, of %s", (what, program, start, key, finding, type) => {
  const missing = needs(program);
  it.skipIf(missing !== undefined)("leads to a first event, and relay check compares the table before", async () => {
    await using server = await start();
    await server.query(outboxBlock(what));
    const config = outboxConfig(what).replace(/url: "[^"]*"/, `url: ${JSON.stringify(server.url)}`);
    const folder = testFolder();
    writeFileSync(join(folder, "relay.config.ts"), config);
    const checked = await runCommand(["check", "--machine"], { cwd: folder, env: TEST_ENV });
    expect(checked.stdout).toMatch(finding);
    const source = /^ {2}sources: \[([\s\S]*)\],\n\}\);/m.exec(config)?.[1] ?? expect.fail();
    await using relay = await startChild(folder, {
      imports: /import \{ (.*) \}/
        .exec(config)?.[1]
        ?.split(", ")
        .filter((name) => name !== "defineRelay"),
      config: `sources: [${source}],`,
    });
    await server.query(outboxBlock(`${what}-insert`));
    const events = async () =>
      (await relay.call("GET", `/api-keys/${key}/events`)).json.data as readonly { readonly type: string }[];
    await eventually("the event is listed", async () => (await events()).length === 1, 30_000);
    expect((await events()).map((one) => one.type)).toEqual([type]);
  });
});
