/** The source behind `fromMysql()`, loaded only where a config names it. */
import type mysql from "mysql2";
import type { SecretOption } from "../../../core/model/secret-option.ts";
import type { TlsFiles } from "../../../core/ports/tls-files.ts";
import type { PluginContext } from "../../../core/ports/plugin.ts";
import type { Source } from "../../../core/ports/source.ts";
import { createMysqlConnector, type MysqlTls } from "../../brokers/mysql.ts";
import type { Reading } from "../messages/message.ts";
import { inspectOutbox, startOutbox } from "../outbox/source.ts";
import { wantedOf, type OutboxOptions } from "../outbox/wanted.ts";
import { mysqlDialect as dialect } from "./dialect.ts";

export interface MysqlOptions extends OutboxOptions {
  /** `mysql://user:password@host:port/database`. */
  readonly url: SecretOption;
  /** How often the table is read, ms. @default 250 */
  readonly pollMs?: number;
  /** Connects over TLS, to a server with a name: `{}`, or with `caFile`, `certFile` and `keyFile` (PEM). */
  readonly tls?: TlsFiles;
}

interface Library {
  readonly mysql: typeof mysql;
  readonly tls: MysqlTls | undefined;
}

const POLL_MS = 250;

/** @param url where MySQL is: the option, read and checked */
export function startMysql(
  ctx: PluginContext,
  options: MysqlOptions & Reading,
  { mysql, tls }: Library,
  url: string,
): Source {
  const { done: mode = "delete", pollMs = POLL_MS } = options;
  const connect = createMysqlConnector(mysql, url, tls, ctx.clock);
  return startOutbox(ctx, options, { connect, dialect, mode, pollMs });
}

export const inspectMysql = (
  { clock }: Pick<PluginContext, "clock">,
  options: MysqlOptions,
  { mysql, tls }: Library,
  url: string,
) => inspectOutbox(createMysqlConnector(mysql, url, tls, clock), dialect, wantedOf(options, options.done ?? "delete"));
