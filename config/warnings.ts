/** Finds settings that are allowed but probably not meant. `relay check` names them; the relay starts anyway. */
import { isLoopbackHost } from "../core/lib/loopback.ts";
import { guessable } from "../core/model/token.ts";
import type { Plan } from "../core/ports/plan.ts";
import { misspelt, type Environment } from "./environment.ts";
import { hidden, pluginsOf, said } from "./plugin-problems.ts";
import type { ConfigProblem } from "./problems.ts";

/** The warning that a start gives, too: a relay that was sized by its threads is slower now. */
export function threadsGone({ threads }: Pick<Plan, "threads">): readonly ConfigProblem[] {
  const message = "threads are gone; run several nodes on a local Redis, see docs/nodes.md";
  return threads === 1 ? [] : [{ path: "threads", message }];
}

/** Every warning, with its place in the config or the name of the variable. */
export function configWarnings(plan: Plan, env: Environment = {}): readonly ConfigProblem[] {
  const found: ConfigProblem[] = [...misspelt(env), ...threadsGone(plan)];
  found.push(...exposed(plan));
  const tokens: readonly (readonly [string, string | undefined])[] = [
    ["metrics.token", plan.metrics.token],
    ["limits.check.token", plan.limitsCheck?.token],
    ["RELAY_PUBLISH_TOKEN", plan.keys.publishToken],
  ];
  for (const [path, token] of tokens) {
    const message = token === undefined ? undefined : guessable(token);
    if (message !== undefined) found.push({ path, message });
  }
  for (const [place, plugin] of pluginsOf(plan)) {
    try {
      for (const { path, message } of said(plugin.warnings?.(plan.configDir)))
        found.push({ path: path === "" ? place : `${place}.${path}`, message });
    } catch (error) {
      const why = hidden(error, plugin, { env, configDir: plan.configDir });
      found.push({ path: place, message: `the warnings of the plug-in ${plugin.name} cannot be read: ${why}` });
    }
  }
  return found;
}

/** Returns true for a CIDR, with or without a port, that holds about as much as the whole Internet. */
const isEverybody = (network: string): boolean => /\/0*[0-6]\]?(?::|$)/.test(network);

/** Warns of what is open to more people than is probably meant. */
function exposed({ server, guard, portal }: Plan): ConfigProblem[] {
  const wide = (path: string, networks: readonly string[], message: string): ConfigProblem[] =>
    networks.flatMap((network, i) => (isEverybody(network) ? [{ path: `${path}[${i}]`, message }] : []));
  const { host, tls, trustedProxies } = server;
  const found = [
    ...wide(
      "server.trustedProxies",
      trustedProxies,
      "believes the X-Forwarded-For of everybody, so that every caller can pose as another address",
    ),
    ...wide(
      "guard.allow",
      guard.allow,
      "opens every address, your own networks too, to whoever may create a subscription: name the networks that are meant",
    ),
  ];
  if (host === "::1" || isLoopbackHost(host)) return found;
  if (tls === undefined && trustedProxies.length === 0) {
    const message =
      "is reached beyond this machine without TLS, so that others can read tokens: set server.tls, or have a proxy";
    found.push({ path: "server.host", message: `${message} end HTTPS in front and name it in server.trustedProxies` });
  }
  if (portal !== false && portal.url === undefined && (portal.name !== "Relay" || portal.logo !== undefined)) {
    const message = "is not set: links to the portal begin with whatever Host the request names that asks for them";
    found.push({ path: "portal.url", message });
  }
  return found;
}
