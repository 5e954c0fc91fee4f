/** The NATS transport publishes each delivery to JetStream and waits for the stream's confirmation. */
import { anything } from "../../core/ports/options.ts";
import { packageProblems } from "../../core/ports/optional-package.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import { tlsRule } from "../../core/ports/tls-files.ts";
import type { Transport } from "../../core/ports/transport.ts";
import { loadNats, NATS_LOGIN, NATS_PACKAGES, natsSecrets, natsServers } from "../brokers/nats.ts";
import { busPlugin } from "./buses/plugin.ts";
import type { ToNatsOptions } from "./nats/transport.ts";

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
      servers: natsServers("nats://host:port without a login, or a list of such"),
      user: anything,
      ...NATS_LOGIN,
      tls: tlsRule(),
    },
    problems: packageProblems("toNats", NATS_PACKAGES),
    secrets: natsSecrets(options),
    async open(options, context) {
      const library = await loadNats("toNats");
      const { NatsBus } = await import("./nats/transport.ts");
      return new NatsBus(options, context, library).connect();
    },
  });
