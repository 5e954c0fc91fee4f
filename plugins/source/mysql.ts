/** `fromMysql({ url, table })` publishes the rows of an outbox table of MySQL or MariaDB. */
import { loadPackages } from "../../core/ports/optional-package.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import type { Source } from "../../core/ports/source.ts";
import { readTls, tlsFileProblems, tlsRule } from "../../core/ports/tls-files.ts";
import { outboxRules } from "./outbox/options.ts";
import { messageSource } from "./messages/plugin.ts";
import type { MysqlOptions } from "./mysql/source.ts";

const PACKAGES = ["mysql2"];

const load = async () => {
  const { default: mysql } = await loadPackages("fromMysql", PACKAGES, () => import("mysql2"));
  return { mysql, ...(await import("./mysql/source.ts")) };
};

/**
 * Publishes the rows of a table or view. A row is deleted, or marked, in a transaction that is committed after its events are
 * stored. Needs the package `mysql2`, and MySQL 8 or MariaDB 10.6, or newer.
 */
export function fromMysql(options: MysqlOptions): Plugin<"source", Source> {
  return messageSource({
    factory: "fromMysql",
    kind: "mysql",
    options,
    protocols: ["mysql:", "mariadb:"],
    rules: { ...outboxRules(options), tls: tlsRule() },
    packages: PACKAGES,
    fileProblems: (name, configDir) => tlsFileProblems(name, options?.tls, configDir),
    async inspect(ctx, options, url) {
      const { mysql, inspectMysql } = await load();
      const tls = readTls("fromMysql", options.tls, ctx.configDir);
      return inspectMysql(ctx, options, { mysql, tls }, url);
    },
    async open(ctx, options, url) {
      const { mysql, startMysql } = await load();
      const tls = readTls("fromMysql", options.tls, ctx.configDir);
      return startMysql(ctx, options, { mysql, tls }, url);
    },
  });
}
