/** Makes the plug-in of a message source from its options. */
import { refuseOptions } from "../../../core/model/errors.ts";
import type { FieldError } from "../../../core/model/problem.ts";
import { isSecretOption, type SecretOption } from "../../../core/model/secret-option.ts";
import type { MetricDeclaration } from "../../../core/model/metric-declaration.ts";
import type { Plugin, PluginContext } from "../../../core/ports/plugin.ts";
import type { Source } from "../../../core/ports/source.ts";
import type { MessageOptions } from "./message.ts";

interface MessageSource<Options extends MessageOptions> {
  /** The name of the source where the options give none. */
  readonly kind: string;
  /** As the config gives them: they may be wrong, or missing. */
  readonly options: Options | undefined;
  readonly problems: readonly FieldError[];
  /** The secret options by their paths. What is no secret is left out: it is one of `problems`. */
  readonly secrets: Readonly<Record<string, SecretOption | undefined>>;
  readonly metrics?: readonly MetricDeclaration[];
  /** What is wrong with the files that the options name. Must not throw. */
  readonly fileProblems?: (configDir: string) => readonly FieldError[];
  /** Called only when there is no problem. */
  open(options: Options, ctx: PluginContext): Promise<Source> | Source;
}

/** Its `setup` refuses wrong options by itself: a caller may not have looked at `problems`. */
export function messageSource<Options extends MessageOptions>(given: MessageSource<Options>): Plugin<"source", Source> {
  const { kind, options, problems, secrets, metrics = [], fileProblems, open } = given;
  const name = typeof options?.name === "string" ? options.name : kind;
  return {
    kind: "source",
    name,
    ownName: true,
    problems,
    secrets: Object.fromEntries(Object.entries(secrets).filter(([, value]) => isSecretOption(value))),
    metrics,
    ...(fileProblems && {
      fileProblems: (configDir) =>
        fileProblems(configDir).map(({ path, message }) => ({ path, message: `of the plug-in ${name} ${message}` })),
    }),
    async setup(ctx) {
      refuseOptions(problems);
      return open(options as Options, ctx);
    },
  };
}
