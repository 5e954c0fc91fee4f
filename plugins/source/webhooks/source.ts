/** Opens the source: an endpoint for each entry of the config. */
import { addressGroup } from "../../../core/lib/address.ts";
import { createLineBound } from "../../../core/lib/line-bound.ts";
import { StartError } from "../../../core/model/errors.ts";
import type { PluginContext } from "../../../core/ports/plugin.ts";
import type { Source } from "../../../core/ports/source.ts";
import type { WebhookEndpoint } from "../webhooks.ts";
import { filler } from "./arrived.ts";
import { type Desk, Endpoint, type EndpointSettings, SOURCE } from "./endpoint.ts";
import { secretsAt } from "./options.ts";
import type { Provider, Verification } from "./scheme.ts";
import { type CheckRequest, everyOne, verifier } from "./verify.ts";

const TIMEOUT_MS = 10_000;
/** Where the attributes of a CloudEvent stand: it is known by its source and its id. */
const CLOUD_EVENT = {
  id: ["{header.ce-source}#{header.ce-id}", "{body.source}#{body.id}"],
  type: ["{header.ce-type}", "{body.type}", "cloudevent"],
};

/** @param endpoints without problems. @throws StartError 78 when a secret that is read from elsewhere is none */
export function openWebhooks(endpoints: readonly WebhookEndpoint[], ctx: PluginContext): Source {
  const { clock, log, metrics } = ctx;
  const bound = createLineBound(clock, (count) =>
    log.warn("more webhooks were refused than are logged", { source: SOURCE, count }),
  );
  const underWay = new Set<Promise<unknown>>();
  const mayLog = (group: string): boolean => bound(addressGroup(group));
  const desk: Desk = { accept: undefined, info: { durability: "volatile" }, underWay, clock, log, metrics, mayLog };
  const all = endpoints.map((one, i) => new Endpoint(settingsOf(one, ctx, `[${i}]`), desk));
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

/** Fills in what the verification says of its provider, where the endpoint says nothing. */
function settingsOf(endpoint: WebhookEndpoint, ctx: PluginContext, at: string): EndpointSettings {
  const { path, keyId, verify, headers = [], cloudEvents = false } = endpoint;
  const schemes = [verify].flat() as readonly Verification[];
  const said: readonly Provider[] = [endpoint, cloudEvents === false ? {} : CLOUD_EVENT, ...schemes];
  const of = <Name extends keyof Provider>(name: Name) => said.find((one) => one[name] !== undefined)?.[name];
  const challenge = of("challenge");
  return {
    path,
    key: keyId,
    keyId: filler(keyId),
    id: filler(of("id") ?? []),
    type: filler(of("type") ?? []),
    headers: headers.map((name) => name.toLowerCase()),
    origins: cloudEvents === true ? [] : cloudEvents === false ? undefined : cloudEvents,
    challenge: challenge && { ...challenge, of: filler(challenge.of), answer: filler(challenge.answer) },
    timeoutMs: of("timeoutMs") ?? TIMEOUT_MS,
    verifiedBy: schemes.map(({ name, by }) => name ?? by).join(", "),
    scheme: schemes.some(({ by }) => by === "basic") ? "Basic" : "Signature",
    check: everyOne(schemes.map((scheme) => checkOf(scheme, secretsAt(verify, at), ctx))),
  };
}

/** @throws StartError 78 that names the place of a secret that is none, and never the secret */
function checkOf(scheme: Verification, secrets: ReturnType<typeof secretsAt>, ctx: PluginContext): CheckRequest {
  const own = secrets.filter((one) => one.scheme === scheme);
  const values = own.map(({ path, option }) => (typeof option === "string" ? option : ctx.secret(path)));
  try {
    return verifier(scheme, values, () => ctx.clock.now());
  } catch (error) {
    if (error instanceof SyntaxError) throw new StartError(78, `webhooks(): ${own[0]?.path} ${error.message}`);
    throw error;
  }
}
