/** The NATS transport publishes each delivery to JetStream and waits for the stream's confirmation. */
import { unknownOptions } from "../../core/model/field-errors.ts";
import type { FieldError } from "../../core/model/problem.ts";
import { isSecretOption } from "../../core/model/secret-option.ts";
import { loadPackages, packageProblems } from "../../core/ports/optional-package.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import type { Transport } from "../../core/ports/transport.ts";
import { nameProblems } from "./buses/destination.ts";
import { tlsFileProblems, tlsProblems } from "./buses/tls-files.ts";
import type { ToNatsOptions } from "./nats/options.ts";

export type { ToNatsOptions } from "./nats/options.ts";

const OWN: readonly (keyof ToNatsOptions)[] = ["name", "servers", "user", "password", "token", "credentials", "tls"];

const PACKAGES = ["@nats-io/transport-node", "@nats-io/jetstream"];

/**
 * Delivers to `nats:` URLs: `nats://<name>/deposits.paid` is the subject `deposits.paid`, which a stream must take. The
 * confirmation of the stream makes it delivered. `Nats-Msg-Id` is the same in each attempt of a cycle, so that a stream
 * drops repeats within its duplicate window. Headers are named as they are; those that begin with `Nats-` are commands
 * to the server, so a subscriber's own of that kind are left out.
 */
export const toNats = (options: ToNatsOptions): Plugin<"transport", Transport> => ({
  kind: "transport",
  name: `nats:${options?.name}`,
  problems: [...problemsOf(options ?? {}), ...unknownOptions(options ?? {}, OWN)],
  secrets: { password: options?.password, token: options?.token, credentials: options?.credentials },
  fileProblems: (configDir) => tlsFileProblems(`nats:${options?.name}`, options?.tls, configDir),
  async setup(context) {
    const client = await loadPackages("toNats", PACKAGES, async () => {
      const { connect, credsAuthenticator, headers, errors } = await import("@nats-io/transport-node");
      const { jetstream, jetstreamManager, JetStreamApiError } = await import("@nats-io/jetstream");
      return { connect, credsAuthenticator, headers, nats: { jetstream, jetstreamManager, JetStreamApiError, errors } };
    });
    const { openNats } = await import("./nats/transport.ts");
    return openNats(options, context, client);
  },
});

function problemsOf(options: Partial<ToNatsOptions>): readonly FieldError[] {
  const { name, servers, password, token, credentials, tls } = options;
  const problems = [...nameProblems(name), ...packageProblems("toNats", PACKAGES), ...tlsProblems(tls)];
  const list = typeof servers === "string" ? [servers] : Array.isArray(servers) ? servers : [];
  const isServer = (one: unknown): boolean => typeof one === "string" && /^(?:(?:nats|tls):\/\/)?[^\s/@]+$/.test(one);
  if (list.length === 0 || !list.every(isServer))
    problems.push({ path: "servers", message: "must be nats://host:port without a login, or a list of such" });
  for (const [path, value] of Object.entries({ password, token, credentials }))
    if (value !== undefined && !isSecretOption(value))
      problems.push({ path, message: "must be text, or secretFrom(…)" });
  return problems;
}
