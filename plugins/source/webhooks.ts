/**
 * The source of webhooks that others send: each is verified by its raw bytes, stored, and only then answered. Presets know how
 * Stripe, GitHub and others sign.
 */
import type { SecretOption } from "../../core/model/secret-option.ts";
import { own } from "../../core/ports/own-plugins.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import type { Source } from "../../core/ports/source.ts";
import { endpointProblems, secretsAt, shortSecrets } from "./webhooks/options.ts";
import type { Texts, Verification } from "./webhooks/scheme.ts";

export * from "./webhooks/presets.ts";

export interface WebhookEndpoint {
  /**
   * The path that the provider sends to, such as `/in/stripe`. Parts behind the first may be `{name}`, for `{path.name}` in the
   * texts below.
   */
  readonly path: string;
  /**
   * The API key of the events. It may have holes that the request fills, as `id` and `type` may: `{header.name}`, `{path.name}`,
   * `{body.name}` (of JSON also `{body.name.inner}`).
   */
  readonly keyId: string;
  /** How a request is verified: a preset, such as `stripe({ secret })`, `hmac({ … })` or another, or a list that must all agree. */
  readonly verify: Verification | readonly Verification[];
  /**
   * Where the provider's id of an event stands: the same at each repeat, which is stored once. A list: the first whose holes can
   * all be filled. @default as the preset says; without one, a repeat is another event
   */
  readonly id?: Texts;
  /** The type of the events. Characters that it may not have become `_`, and `/` becomes a dot. @default as the preset says */
  readonly type?: Texts;
  /** Headers that receivers get too: the data is `{ headers, body }` then. @default the data is the body */
  readonly headers?: readonly string[];
  /** Longest wait for the answer, ms. What takes longer is answered 503, and is a repeat when it comes again. @default as the preset says, or 10_000 */
  readonly timeoutMs?: number;
  /**
   * True where CloudEvents come: they bring id and type along, and the handshake (OPTIONS) of every origin is answered, or of those
   * of a list. @default false
   */
  readonly cloudEvents?: boolean | readonly string[];
}

/** Takes the webhooks of providers, each at a path of its own. */
export function webhooks(endpoints: readonly WebhookEndpoint[]): Plugin<"source", Source> {
  const problems = endpointProblems(endpoints);
  const given = Array.isArray(endpoints) ? (endpoints as readonly (WebhookEndpoint | undefined)[]) : [];
  const secrets = given.flatMap((one, i) => secretsAt(one?.verify, `[${i}]`));
  const paths = given.flatMap((one) => (typeof one?.path === "string" ? [one.path] : []));
  return own({
    kind: "source",
    name: "webhooks",
    problems,
    routes: paths.map((path) => `POST ${path}`),
    warnings: () => shortSecrets(secrets),
    secrets: Object.fromEntries(secrets.map(({ path, option }): [string, SecretOption] => [path, option])),
    metrics: [
      {
        name: "relay_source_webhooks_total",
        type: "counter",
        help: "Webhooks that came in, by path and by what became of them",
        labels: ["path", "result"],
        series: 100,
      },
    ],
    async setup(ctx) {
      const { openWebhooks } = await import("./webhooks/source.ts");
      return openWebhooks(endpoints, ctx);
    },
  });
}
