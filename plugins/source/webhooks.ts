/**
 * The source of webhooks that others send: each is verified by its raw bytes, stored, and only then answered. Presets know how
 * Stripe, GitHub and others sign.
 */
import type { SecretOption } from "../../core/model/secret-option.ts";
import { own } from "../../core/ports/own-plugins.ts";
import type { MetricDeclaration, Plugin } from "../../core/ports/plugin.ts";
import type { Source } from "../../core/ports/source.ts";
import { endpointProblems, secretsAt } from "./webhooks/options.ts";
import type { WebhookEndpoint } from "./webhooks/scheme.ts";

export * from "./webhooks/presets.ts";
export type { HmacOptions, Verification, WebhookEndpoint } from "./webhooks/scheme.ts";

const METRIC: MetricDeclaration = {
  ...{ name: "relay_source_webhooks_total", type: "counter", labels: ["path", "result"], series: 100 },
  help: "Webhooks that came in, by path and by what became of them",
};

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
    secrets: Object.fromEntries(secrets.map(({ path, option }): [string, SecretOption] => [path, option])),
    metrics: [METRIC],
    async setup(ctx) {
      const { openWebhooks } = await import("./webhooks/source.ts");
      return openWebhooks(endpoints, ctx, (one) => ctx.metrics.count("relay_source_webhooks_total", one));
    },
  });
}
