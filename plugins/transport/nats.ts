/** The NATS transport publishes each delivery to JetStream and waits for the stream's confirmation. */
import { anything, optional, secret, texts } from "../../core/ports/options.ts";
import { loadPackages, packageProblems } from "../../core/ports/optional-package.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import { tlsRule } from "../../core/ports/tls-files.ts";
import type { Transport } from "../../core/ports/transport.ts";
import { busPlugin } from "./buses/plugin.ts";
import type { ToNatsOptions } from "./nats/transport.ts";

const PACKAGES = ["@nats-io/transport-node", "@nats-io/jetstream"];
const SERVERS = "nats://host:port without a login, or a list of such";

/**
 * Delivers to `nats:` URLs: `nats://<name>/deposits.paid` is the subject `deposits.paid`, which a stream must take. The
 * confirmation of the stream makes it delivered. `Nats-Msg-Id` is the same in each attempt of a cycle, so that a stream
 * drops repeats within its duplicate window. Headers are named as they are; those that begin with `Nats-` are commands
 * to the server, so a subscriber's own of that kind are left out.
 */
export const toNats = (options: ToNatsOptions): Plugin<"transport", Transport> =>
  busPlugin({
    scheme: "nats",
    options,
    rules: {
      servers: texts(SERVERS, /^(?:(?:nats|tls):\/\/)?[^\s/@]+$/, true),
      user: anything,
      password: optional(secret),
      token: optional(secret),
      credentials: optional(secret),
      tls: tlsRule(),
    },
    problems: packageProblems("toNats", PACKAGES),
    secrets: { password: options?.password, token: options?.token, credentials: options?.credentials },
    async open(options, context) {
      const client = await loadPackages("toNats", PACKAGES, async () => {
        const { connect, credsAuthenticator, headers, errors } = await import("@nats-io/transport-node");
        const { jetstream, jetstreamManager, JetStreamApiError } = await import("@nats-io/jetstream");
        const nats = { jetstream, jetstreamManager, JetStreamApiError, errors };
        return { connect, credsAuthenticator, headers, nats };
      });
      const { openNats } = await import("./nats/transport.ts");
      return openNats(options, context, client);
    },
  });
