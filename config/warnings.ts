/** Finds settings that are allowed but probably not meant. `relay check` names them; the relay starts anyway. */
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
  for (const [i, network] of plan.server.trustedProxies.entries()) {
    if (!/\/0+$/.test(network)) continue;
    const message = "believes the X-Forwarded-For of everybody, so that every caller can pose as another address";
    found.push({ path: `server.trustedProxies[${i}]`, message });
  }
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
