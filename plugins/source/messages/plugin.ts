/** Makes the plug-in of a message source from its options. */
import { isAsync, NOT_ASYNC } from "../../../core/lib/at-once.ts";
import type { Inspected, MetricDeclaration, Plugin, PluginContext } from "../../../core/ports/plugin.ts";
import { isEventName, isKeyId } from "../../../core/model/names.ts";
import {
  checkedUrl,
  optional,
  optionProblems,
  secretUrl,
  text,
  type Rule,
  type Rules,
} from "../../../core/ports/options.ts";
import { packageProblems } from "../../../core/ports/optional-package.ts";
import type { FieldError } from "../../../core/model/problem.ts";
import { isSecretOption, type SecretOption } from "../../../core/model/secret-option.ts";
import { own } from "../../../core/ports/own-plugins.ts";
import type { Source } from "../../../core/ports/source.ts";
import type { MessageOptions, Reading } from "./message.ts";

/** The rule of a function, which returns its result at once, or of a text in place of it. */
const mapping = (what: string, is: (given: string) => boolean = () => false): Rule =>
  optional((value, path) => {
    if (isAsync(value)) return [{ path, message: NOT_ASYNC }];
    const right = typeof value === "function" || (typeof value === "string" && is(value));
    return right ? [] : [{ path, message: `must be ${what}` }];
  });

export const MESSAGE: Rules<MessageOptions> = {
  name: optional(text("1 to 32 letters, digits or -, the first a letter", /^[A-Za-z][A-Za-z0-9-]{0,31}$/)),
  map: mapping("a function"),
  keyId: mapping("a key id or a function", isKeyId),
  type: mapping("an event type or a function", isEventName),
};

export const BACKLOG: MetricDeclaration = {
  name: "relay_source_backlog",
  type: "gauge",
  help: "Messages that wait upstream, by source",
  labels: ["source"],
};

interface MessageSource<Options extends MessageOptions> {
  /** The name of the factory, for people. */
  readonly factory: string;
  /** The name of the source where the options give none. */
  readonly kind: string;
  /** As the config gives them: they may be wrong, or missing. */
  readonly options: Options | undefined;
  /** The protocols that its option `url` may begin with, where it has one: a secret. */
  readonly protocols?: readonly string[];
  /** The rules of the other options that are its own. */
  readonly rules: Rules<Omit<Options, keyof MessageOptions | "url">>;
  readonly packages?: readonly string[];
  /** Problems that the rules do not find. */
  readonly problems?: readonly FieldError[];
  /** The other secret options by their paths. What is no secret is left out: a problem names it. */
  readonly secrets?: Readonly<Record<string, SecretOption | undefined>>;
  /** Returns what is wrong with the files that the options name. Must not throw. */
  readonly fileProblems?: (name: string, configDir: string) => readonly FieldError[];
  /** Looks at what upstream has, as `Plugin.inspect`. */
  inspect?(
    ctx: Pick<PluginContext, "clock" | "configDir">,
    options: Options,
    url: string,
  ): Promise<readonly Inspected[]>;
  /**
   * Called only when there is no problem.
   * @param url the option, read and checked
   */
  open(ctx: PluginContext, options: Options & Reading, url: string): Promise<Source>;
}

export function messageSource<Options extends MessageOptions>(given: MessageSource<Options>): Plugin<"source", Source> {
  const { factory, kind, options, protocols, packages = [], problems = [], fileProblems, inspect, open } = given;
  const name = typeof options?.name === "string" ? options.name : kind;
  const url = protocols && { url: secretUrl(protocols) };
  const rules = { ...MESSAGE, ...url, ...given.rules } as Rules<Options>;
  const urlOf = ({ secret }: Pick<PluginContext, "secret">): string =>
    protocols ? checkedUrl(factory, secret("url"), protocols) : "";
  const { url: at } = (options ?? {}) as { readonly url?: SecretOption };
  const secrets = Object.entries({ ...(protocols && { url: at }), ...given.secrets });
  return own({
    kind: "source",
    name,
    ownName: true,
    problems: [...optionProblems(options, rules), ...problems, ...packageProblems(factory, packages)],
    secrets: Object.fromEntries(secrets.filter(([, value]) => isSecretOption(value))),
    metrics: [BACKLOG],
    ...(fileProblems && { fileProblems: (configDir) => fileProblems(name, configDir) }),
    ...(inspect && { inspect: async (ctx) => inspect(ctx, options as Options, urlOf(ctx)) }),
    setup: (ctx) => open(ctx, { ...(options as Options), source: name }, urlOf(ctx)),
  });
}
