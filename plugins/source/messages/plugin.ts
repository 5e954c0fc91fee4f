/** Makes the plug-in of a message source from its options. */
import { refuseOptions } from "../../../core/model/errors.ts";
import type { FieldError } from "../../../core/model/problem.ts";
import { isSecretOption, type SecretOption } from "../../../core/model/secret-option.ts";
import type { MetricDeclaration } from "../../../core/model/metric-declaration.ts";
import type { Plugin, PluginContext } from "../../../core/ports/plugin.ts";
import type { Source } from "../../../core/ports/source.ts";
import type { MessageOptions } from "./message.ts";

export interface MessageSource<Options extends MessageOptions> {
  /** The name of the source where the options give none. */
  readonly kind: string;
  /** As the config gives them: they may be wrong, or missing. */
  readonly options: Options | undefined;
  readonly problems: readonly FieldError[];
  /** The secret options by their paths. What is no secret is left out: it is one of `problems`. */
  readonly secrets: Readonly<Record<string, SecretOption | undefined>>;
  readonly metrics?: readonly MetricDeclaration[];
  /** Called only when there is no problem. */
  open(options: Options, ctx: PluginContext): Promise<Source> | Source;
}

/** Its `setup` refuses wrong options by itself: a caller may not have looked at `problems`. */
export function messageSource<Options extends MessageOptions>(given: MessageSource<Options>): Plugin<"source", Source> {
  const { kind, options, problems, secrets, metrics = [], open } = given;
  return {
    kind: "source",
    name: typeof options?.name === "string" ? options.name : kind,
    problems,
    secrets: Object.fromEntries(Object.entries(secrets).filter(([, value]) => isSecretOption(value))),
    metrics,
    async setup(ctx) {
      refuseOptions(problems);
      return open(options as Options, ctx);
    },
  };
}
