/** `fromPostgres({ url, table })` publishes the rows of an outbox table, or reads a growing table without writing to it. */
import { flag, must, optional, text } from "../../core/ports/options.ts";
import { loadPackages } from "../../core/ports/optional-package.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import type { Source } from "../../core/ports/source.ts";
import { outboxRules } from "./outbox/options.ts";
import { messageSource } from "./messages/plugin.ts";
import type { PostgresOptions } from "./postgres/source.ts";

const PACKAGES = ["pg"];

const load = async () => {
  const { default: pg } = await loadPackages("fromPostgres", PACKAGES, () => import("pg"));
  return { pg, ...(await import("./postgres/source.ts")) };
};

/**
 * Publishes the rows of a table or view. A row is deleted, or marked, in a transaction that is committed after its events are
 * stored. Needs the package `pg`, and PostgreSQL 13 or newer.
 */
export function fromPostgres(options: PostgresOptions): Plugin<"source", Source> {
  const { done, dead, pollMs, maxInFlight, ...rules } = outboxRules(options);
  const beside = optional(must("has no meaning beside cursor", () => false));
  const isCursor = options?.cursor === true;
  return messageSource({
    factory: "fromPostgres",
    kind: "postgres",
    options,
    protocols: ["postgres:", "postgresql:"],
    rules: {
      ...rules,
      done: isCursor ? beside : done,
      dead: isCursor ? beside : dead,
      cursor: optional(flag),
      channel: optional(text("the name of a channel", /^[A-Za-z_][A-Za-z0-9_$]{0,62}$/)),
      ...{ pollMs, maxInFlight },
    },
    packages: PACKAGES,
    async inspect(ctx, options, url) {
      const { pg, inspectPostgres } = await load();
      return inspectPostgres(ctx, options, pg, url);
    },
    async open(ctx, options, url) {
      const { pg, startPostgres } = await load();
      return startPostgres(ctx, options, pg, url);
    },
  });
}
