/** Opens the source: an endpoint for each entry of the config. */
import { createLineBound } from "../../../core/lib/line-bound.ts";
import { StartError } from "../../../core/model/errors.ts";
import type { PluginContext } from "../../../core/ports/plugin.ts";
import type { Source } from "../../../core/ports/source.ts";
import { type Desk, Endpoint, SOURCE } from "./endpoint.ts";
import { secretsAt } from "./options.ts";
import type { Verification, WebhookEndpoint } from "./scheme.ts";
import { type CheckRequest, everyOne, verifier } from "./verify.ts";

/** @param endpoints without problems. @throws StartError 78 when a secret that is read from elsewhere is none */
export function openWebhooks(endpoints: readonly WebhookEndpoint[], ctx: PluginContext, count: Desk["count"]): Source {
  const { clock, log } = ctx;
  const bound = createLineBound(clock, (count) =>
    log.warn("more webhooks were refused than are logged", { source: SOURCE, count }),
  );
  const underWay = new Set<Promise<unknown>>();
  const desk: Desk = { accept: undefined, info: { durability: "volatile" }, underWay, clock, log, count, bound };
  const all = endpoints.map((one, i) => new Endpoint(one, checkOf(one.verify, `[${i}]`, ctx), desk));
  return {
    routes: all.flatMap(({ routes }) => routes),
    figures: () => all.map((one) => one.figures()),
    start(accept, info) {
      desk.accept = accept;
      desk.info = info;
    },
    async stop() {
      desk.accept = undefined;
      await Promise.allSettled(underWay);
    },
  };
}

/** @throws StartError 78 that names the place of a secret that is none, and never the secret */
function checkOf(verify: WebhookEndpoint["verify"], at: string, ctx: PluginContext): CheckRequest {
  const all = secretsAt(verify, at);
  const checks = ([verify].flat() as readonly Verification[]).map((scheme) => {
    const secrets = all.filter((one) => one.scheme === scheme);
    const values = secrets.map(({ path, option }) => (typeof option === "string" ? option : ctx.secret(path)));
    try {
      return verifier(scheme, values, () => ctx.clock.now());
    } catch (error) {
      if (error instanceof SyntaxError) throw new StartError(78, `webhooks(): ${secrets[0]?.path} ${error.message}`);
      throw error;
    }
  });
  return everyOne(checks);
}
