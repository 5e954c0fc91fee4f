/** `postgres({ url })` lets several nodes run as one relay, with a backlog as large as the disk. */
import { loadPackages, packageProblems } from "../../core/ports/optional-package.ts";
import { optionProblems } from "../../core/ports/options.ts";
import { own } from "../../core/ports/own-plugins.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import type { Storage } from "../../core/ports/storage.ts";
import { isSecretOption } from "../../core/model/secret-option.ts";
import { LEASE_MS, type PostgresStorageOptions, RULES } from "./postgres/options.ts";
import type { Now } from "./postgres/time-argument.ts";

export type { PostgresStorageOptions } from "./postgres/options.ts";

const PACKAGES = ["pg"];

/**
 * Keeps records, the due index and the limiter's windows on PostgreSQL 14 or newer, in a schema of its own. What a commit is
 * worth depends on the set-up of the server, which is read every few seconds and reported: `volatile` where fsync,
 * full_page_writes or synchronous_commit is off, `replicated` where commits wait for a standby, `fsync` otherwise.
 *
 * While PostgreSQL is unreachable, every call fails within seconds and none falls back to memory; within 5 s of its return, or
 * of a failover to another host of the URL, everything works again. Needs the package `pg`.
 */
export function postgres(options: PostgresStorageOptions): Plugin<"storage", Storage> & { readonly shared: true } {
  return postgresAt(options, () => null);
}

/** Like `postgres`, with the clock of its decisions passed in: for tests, which cannot move a server's clock. */
export function postgresAt(
  options: PostgresStorageOptions,
  now: Now,
): Plugin<"storage", Storage> & { readonly shared: true } {
  const { url, directUrl, leaseMs = LEASE_MS } = (options ?? {}) as Partial<PostgresStorageOptions>;
  const secrets = Object.entries({ url, directUrl }).filter(([, value]) => isSecretOption(value));
  return own({
    kind: "storage",
    name: "postgres",
    shared: true,
    problems: [...optionProblems(options, RULES), ...packageProblems("postgres", PACKAGES)],
    secrets: Object.fromEntries(secrets),
    leaseMs,
    async setup(ctx) {
      const { default: pg } = await loadPackages("postgres", PACKAGES, () => import("pg"));
      return (await import("./postgres/open.ts")).open(options, ctx, pg, now);
    },
  });
}
