/** Makes the plug-in of a transport over a named connection from its options. */
import { optionProblems, text, type Rules } from "../../../core/ports/options.ts";
import type { FieldError } from "../../../core/model/problem.ts";
import type { SecretOption } from "../../../core/model/secret-option.ts";
import type { Plugin, PluginContext } from "../../../core/ports/plugin.ts";
import { own } from "../../../core/ports/own-plugins.ts";
import { tlsFileProblems, type TlsFiles } from "../../../core/ports/tls-files.ts";
import type { Transport } from "../../../core/ports/transport.ts";

interface Connection {
  readonly name: string;
  readonly tls?: TlsFiles;
}

interface BusPlugin<Options extends Connection> {
  /** Without a colon: `nats`. */
  readonly scheme: string;
  /** As the config gives them: they may be wrong, or missing. */
  readonly options: Options;
  /** Those of the options beside `name`. */
  readonly rules: Rules<Omit<Options, "name">>;
  /** Problems that the rules do not find. */
  readonly problems?: readonly FieldError[];
  readonly secrets?: Readonly<Record<string, SecretOption | undefined>>;
  /** Called only when there is no problem. */
  open(options: Options, ctx: PluginContext): Promise<Transport>;
}

const NAME = text("1 to 63 lower-case letters, digits and -, such as bus", /^[a-z0-9][a-z0-9-]{0,62}$/);

export function busPlugin<Options extends Connection>(given: BusPlugin<Options>): Plugin<"transport", Transport> {
  const { options, secrets = {}, open } = given;
  const name = `${given.scheme}:${options?.name}`;
  const problems = [...optionProblems(options, { name: NAME, ...given.rules }), ...(given.problems ?? [])];
  return own({
    kind: "transport",
    name,
    problems,
    secrets,
    fileProblems: (configDir) => tlsFileProblems(name, options?.tls, configDir),
    setup: (ctx) => open(options, ctx),
  });
}
