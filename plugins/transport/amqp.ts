/** The AMQP transport publishes each delivery to an exchange of RabbitMQ and waits for the broker's confirmation. */
import { unknownOptions } from "../../core/model/field-errors.ts";
import type { FieldError } from "../../core/model/problem.ts";
import { loadPackages, packageProblems } from "../../core/ports/optional-package.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import type { Transport } from "../../core/ports/transport.ts";
import { nameProblems } from "./buses/destination.ts";
import { checkedUrl, urlProblems } from "./buses/secret-url.ts";
import { tlsFileProblems, tlsProblems } from "./buses/tls-files.ts";
import type { ToAmqpOptions } from "./amqp/options.ts";

export type { ToAmqpOptions } from "./amqp/options.ts";

const OWN: readonly (keyof ToAmqpOptions)[] = ["name", "url", "tls"];

const PACKAGES = ["amqplib"];
const SCHEMES = ["amqp", "amqps"];

/**
 * Delivers to `amqp:` URLs: `amqp://<name>/deposits/deposits.paid` is the exchange `deposits` with the routing key
 * `deposits.paid`; nothing is declared. The message is persistent and `mandatory`, its `messageId` is the same in each
 * attempt of a cycle, and its headers are named as they are. The broker's confirmation makes it delivered; a message
 * that no queue takes is a failure.
 */
export const toAmqp = (options: ToAmqpOptions): Plugin<"transport", Transport> => ({
  kind: "transport",
  name: `amqp:${options?.name}`,
  problems: [...problemsOf(options ?? {}), ...unknownOptions(options ?? {}, OWN)],
  secrets: { url: options?.url },
  fileProblems: (configDir) => tlsFileProblems(`amqp:${options?.name}`, options?.tls, configDir),
  async setup(context) {
    const { connect } = await loadPackages("toAmqp", PACKAGES, () => import("amqplib"));
    const { openAmqp } = await import("./amqp/transport.ts");
    return openAmqp(options, context, connect, checkedUrl("toAmqp", context.secret("url"), SCHEMES));
  },
});

function problemsOf({ name, url, tls }: Partial<ToAmqpOptions>): readonly FieldError[] {
  return [
    ...nameProblems(name),
    ...urlProblems("url", url, SCHEMES),
    ...tlsProblems(tls),
    ...packageProblems("toAmqp", PACKAGES),
  ];
}
