/** Has each source look at what it reads from, as it would at its start. It changes nothing there. */
import { causeOf } from "../../core/lib/reason.ts";
import { within } from "../../core/lib/within.ts";
import type { Plan } from "../../core/ports/plan.ts";
import { SecretOptions } from "../../core/runtime/offline.ts";
import type { CliEnvironment } from "../support/environment.ts";
import { bad, type Finding, good, warn } from "./finding.ts";

const MEND = "mend the table, or name in the config what it has (docs/outbox.md)";
const MOST_MS = 15_000;

export async function checkSources({ sources, configDir }: Plan, io: CliEnvironment): Promise<readonly Finding[]> {
  const { clock, env } = io;
  const findings: Finding[] = [];
  for (const plugin of sources) {
    const { name, inspect } = plugin;
    if (inspect === undefined) continue;
    const secrets = new SecretOptions({ env, configDir });
    const said = (text: string): string => secrets.hide(`${name}: ${text}`);
    try {
      const look = inspect({ clock, configDir, secret: secrets.of(plugin) });
      if (!(await within(clock, MOST_MS, look))) throw new Error("nothing answers there (ETIMEDOUT)");
      const found = await look;
      for (const { isBad, message } of found)
        findings.push(isBad ? bad("source", said(message), MEND) : warn("source", said(message), "see docs/outbox.md"));
      if (found.length === 0) findings.push(good("source", said("what it reads from fits")));
    } catch (error) {
      findings.push(bad("source", said(causeOf(error)), "see that it runs and can be reached from here", "outside"));
    }
  }
  return findings;
}
