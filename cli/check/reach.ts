/** Connects to a URL as a delivery would, through the guard and the proxy, and sends nothing. */
import { readFile } from "node:fs/promises";
import type { TLSSocket } from "node:tls";
import { createGuard } from "../../core/guard/index.ts";
import { ConnectError } from "../../core/model/errors.ts";
import type { Plan, TransportPlugin } from "../../core/ports/plan.ts";
import type { Connect, PluginContext, TlsIdentity } from "../../core/ports/plugin.ts";
import { SecretOptions } from "../../core/runtime/offline.ts";
import type { CliEnvironment } from "../support/environment.ts";
import { withDeadline } from "../support/network.ts";
import { bad, type Finding, good } from "./finding.ts";

/** Offered by the https transport beside its port. */
interface Reach {
  readonly connect: Connect;
  readonly hosts: ReadonlyMap<string, TlsIdentity>;
}
interface HasReach {
  reach(ctx: Pick<PluginContext, "connect" | "configDir" | "secret">): Reach;
}

const PROBE_MS = 10_000;
const ADVICE: Readonly<Record<string, string>> = {
  dns: "see that the name is right, and that the name servers of this machine know it",
  tls: "see its certificate: its name, its dates, its chain; an authority of your own goes into guard.ca",
};

export async function checkReach(url: string, plan: Plan, { clock, env }: CliEnvironment): Promise<Finding> {
  const ca = plan.guard.ca === undefined ? undefined : await readFile(plan.guard.ca, "utf8");
  const guard = createGuard({ ...plan.guard, ca, clock });
  const verdict = await guard.register(url);
  if (!verdict.ok) {
    const todo =
      verdict.allow === undefined
        ? "write it as https://host/path with a public host name; the operator opens internal ones in guard.allow"
        : `where that is meant, open it: guard: { allow: ["${verdict.allow}"] }`;
    return bad("url", `${url}: ${verdict.message} (${verdict.reason})`, todo, "outside");
  }
  const { hostname, port, href } = verdict;
  const began = clock.monotonic();
  try {
    const { connect, hosts } = reachOf(plan, guard.connect, env);
    const identity = hosts.get(hostname);
    const socket = await withDeadline(clock, PROBE_MS, (signal) => connect({ hostname, port, identity }, signal));
    const { valid_to } = (socket as TLSSocket).getPeerCertificate();
    const took = `${socket.remoteAddress} answers in ${Math.round(clock.monotonic() - began)} ms`;
    socket.destroy();
    return good("url", `${href}: ${took}, certificate until ${new Date(valid_to).toISOString().slice(0, 10)}`);
  } catch (error) {
    const stage = error instanceof ConnectError ? error.stage : "connect";
    const todo = ADVICE[stage] ?? "see that it runs, and that no firewall stands between";
    return bad("url", `${url}: ${stage}: ${(error as Error).message}`, todo, "outside");
  }
}

/** Returns how the https transport connects: with the files of single hosts, through its proxy. */
function reachOf(plan: Plan, connect: Connect, env: CliEnvironment["env"]): Reach {
  const transport = plan.transports.find(({ name }) => name === "https") as Partial<HasReach> & TransportPlugin;
  if (transport?.reach === undefined) return { connect, hosts: new Map() };
  const secret = new SecretOptions({ env, configDir: plan.configDir }).of(transport);
  return transport.reach({ connect, configDir: plan.configDir, secret });
}
