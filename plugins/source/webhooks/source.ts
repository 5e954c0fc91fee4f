/** Opens the source: an endpoint for each entry of the config. */
import { createLineBound } from "../../../core/lib/line-bound.ts";
import { addressGroup } from "../../../core/lib/address.ts";
import { StartError } from "../../../core/model/errors.ts";
import type { PluginContext } from "../../../core/ports/plugin.ts";
import type { Source } from "../../../core/ports/source.ts";
import type { WebhookEndpoint } from "../webhooks.ts";
import { filler } from "./arrived.ts";
import { type Desk, type Endpoint, endpointOf, nothing, SOURCE } from "./endpoint.ts";
import { secretsAt } from "./options.ts";
import type { Verification } from "./scheme.ts";
import { type CheckRequest, everyOne, verifier } from "./verify.ts";

const TIMEOUT_MS = 10_000;

/** @param endpoints without problems. @throws StartError 78 when a secret that was read from elsewhere is none */
export function openWebhooks(endpoints: readonly WebhookEndpoint[], ctx: PluginContext): Source {
  const { clock, log } = ctx;
  const bound = createLineBound(clock, (count) =>
    log.warn("more webhooks were refused than are logged", { source: SOURCE, count }),
  );
  const desk: Desk = {
    accept: undefined,
    info: { durability: "volatile" },
    underWay: new Set(),
    ctx,
    mayLog: (group) => bound(addressGroup(group)),
  };
  const all = endpoints.map((one, i) => endpointOf(settled(one, ctx, `[${i}]`), desk));
  return {
    routes: all.flatMap(({ routes }) => routes),
    figures: () => all.map(({ figures }) => figures()),
    start(accept, info) {
      desk.accept = accept;
      desk.info = info;
    },
    async stop() {
      desk.accept = undefined;
      await Promise.allSettled(desk.underWay);
    },
  };
}

/** Fills in what the verification says of its provider, where the endpoint says nothing. */
function settled(endpoint: WebhookEndpoint, ctx: PluginContext, at: string): Endpoint {
  const { path, keyId, verify, headers = [], cloudEvents = false } = endpoint;
  const schemes = [verify].flat() as readonly Verification[];
  const of = <Name extends "id" | "type" | "timeoutMs">(name: Name) =>
    endpoint[name] ?? schemes.find((scheme) => scheme[name] !== undefined)?.[name];
  const [id, type] = [of("id"), of("type")];
  return {
    path,
    key: keyId,
    keyId: filler(keyId),
    id: id === undefined ? nothing : filler(id),
    type: type === undefined ? nothing : filler(type),
    headers: headers.map((name) => name.toLowerCase()),
    cloudEvents: cloudEvents !== false,
    origins: cloudEvents === true ? [] : cloudEvents === false ? undefined : cloudEvents,
    challenge: schemes.find(({ challenge }) => challenge !== undefined)?.challenge,
    timeoutMs: of("timeoutMs") ?? TIMEOUT_MS,
    verifiedBy: schemes.map(({ name, by }) => name ?? by).join(", "),
    scheme: schemes.some(({ by }) => by === "basic") ? "Basic" : "Signature",
    check: everyOne(checksOf(verify, schemes, ctx, at)),
  };
}

/** @throws StartError 78 that names the place of a secret that is none, and never the secret */
function checksOf(
  verify: WebhookEndpoint["verify"],
  schemes: readonly Verification[],
  ctx: PluginContext,
  at: string,
): readonly CheckRequest[] {
  const secrets = secretsAt(verify, at);
  return schemes.map((scheme) => {
    const own = secrets.filter((one) => one.scheme === scheme);
    const values = own.map(({ path, option }) => (typeof option === "string" ? option : ctx.secret(path)));
    try {
      return verifier(scheme, values, () => ctx.clock.now());
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
      throw new StartError(78, `webhooks(): ${own[0]?.path ?? at} ${error.message}`);
    }
  });
}
