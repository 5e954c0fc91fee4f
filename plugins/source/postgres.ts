/** `fromPostgres({ url, table })` publishes the rows of an outbox table, or reads a growing table without writing to it. */
import type { FieldError } from "../../core/model/problem.ts";
import { loadPackages, packageProblems } from "../../core/ports/optional-package.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import type { Source } from "../../core/ports/source.ts";
import { checkedUrl, countProblems, messageProblems, urlProblems } from "./messages/options.ts";
import { messageSource } from "./messages/plugin.ts";
import type { PostgresOptions } from "./postgres/options.ts";

export type { PostgresOptions } from "./postgres/options.ts";

const PACKAGES = ["pg"];
const OWN = ["url", "table", "done", "cursor", "channel", "pollMs", "maxInFlight"];
const PROTOCOLS = ["postgres:", "postgresql:"];
const NAME = "[A-Za-z_][A-Za-z0-9_$]{0,62}";
const TABLE = new RegExp(`^${NAME}(?:\\.${NAME})?$`);
const CHANNEL = new RegExp(`^${NAME}$`);

/**
 * Publishes the column `event` (json, jsonb or text) of each row of a table with `id bigint primary key`. A row is deleted, or
 * marked, in a transaction that is committed after its events are stored. Needs the package `pg`, and PostgreSQL 13 or newer.
 */
export function fromPostgres(options: PostgresOptions): Plugin<"source", Source> {
  const url = (options as PostgresOptions | undefined)?.url;
  return messageSource({
    kind: "postgres",
    options,
    problems: problemsOf(options),
    secrets: { url },
    async open(options, ctx) {
      const { default: pg } = await loadPackages("fromPostgres", PACKAGES, () => import("pg"));
      const url = checkedUrl("fromPostgres()", ctx.secret("url"), PROTOCOLS);
      const { startPostgres } = await import("./postgres/source.ts");
      return startPostgres(ctx, options, pg, url);
    },
  });
}

function problemsOf(options: PostgresOptions | undefined): readonly FieldError[] {
  const { url, table, done, cursor, channel, pollMs, maxInFlight } = options ?? ({} as PostgresOptions);
  const found = [...messageProblems(options, OWN), ...urlProblems("url", url, PROTOCOLS)];
  const check = (path: string, value: unknown, right: boolean, message: string): void => {
    if (value !== undefined && !right) found.push({ path, message });
  };
  check("table", table, typeof table === "string" && TABLE.test(table), "must be a table, or schema.table");
  check("done", done, done === "delete" || done === "mark", 'must be "delete" or "mark"');
  check("cursor", cursor, typeof cursor === "boolean", "must be true or false");
  if (cursor === true && done !== undefined) found.push({ path: "done", message: "has no meaning beside cursor" });
  check("channel", channel, typeof channel === "string" && CHANNEL.test(channel), "must be the name of a channel");
  found.push(...countProblems("pollMs", pollMs, 10, 3_600_000));
  found.push(...countProblems("maxInFlight", maxInFlight, 1, 10_000));
  return [...found, ...packageProblems("fromPostgres", PACKAGES)];
}
