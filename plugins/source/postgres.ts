/** `fromPostgres({ url, table })` publishes the rows of an outbox table, or reads a growing table without writing to it. */
import { choice, flag, must, optional, text, whole } from "../../core/ports/options.ts";
import { loadPackages } from "../../core/ports/optional-package.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import type { Source } from "../../core/ports/source.ts";
import { messageSource } from "./messages/plugin.ts";
import type { PostgresOptions } from "./postgres/source.ts";

const PACKAGES = ["pg"];
const NAME = "[A-Za-z_][A-Za-z0-9_$]{0,62}";

/**
 * Publishes the column `event` (json, jsonb or text) of each row of a table with `id bigint primary key`. A row is deleted, or
 * marked, in a transaction that is committed after its events are stored. Needs the package `pg`, and PostgreSQL 13 or newer.
 */
export function fromPostgres(options: PostgresOptions): Plugin<"source", Source> {
  const done = options?.cursor === true ? must("has no meaning beside cursor", () => false) : choice("delete", "mark");
  return messageSource({
    factory: "fromPostgres",
    kind: "postgres",
    options,
    protocols: ["postgres:", "postgresql:"],
    rules: {
      table: optional(text("a table, or schema.table", new RegExp(`^${NAME}(?:\\.${NAME})?$`))),
      done: optional(done),
      cursor: optional(flag),
      channel: optional(text("the name of a channel", new RegExp(`^${NAME}$`))),
      pollMs: optional(whole(10, 3_600_000)),
      maxInFlight: optional(whole(1, 10_000)),
    },
    packages: PACKAGES,
    async open(ctx, options, url) {
      const { default: pg } = await loadPackages("fromPostgres", PACKAGES, () => import("pg"));
      const { startPostgres } = await import("./postgres/source.ts");
      return startPostgres(ctx, options, pg, url);
    },
  });
}
