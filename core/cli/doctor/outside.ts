/** Checks the network: name servers, URLs through the same guard as deliveries, and the address to listen on. */
import { getServers } from "node:dns";
import { readFile } from "node:fs/promises";
import { createServer } from "node:net";
import type { TLSSocket } from "node:tls";
import { createGuard } from "../../guard/index.ts";
import { dnsResolver } from "../../guard/resolve.ts";
import { ConnectError } from "../../model/errors.ts";
import { systemReason } from "../../model/system-error.ts";
import type { Plan, TransportPlugin } from "../../ports/plan.ts";
import type { Connect, PluginContext, TlsIdentity } from "../../ports/plugin.ts";
import { createSecretOptions } from "../../runtime/secret-options.ts";
import type { CliEnvironment } from "../support/environment.ts";
import { probe } from "../support/readiness.ts";
import { localUrl } from "../support/client.ts";
import { signToken } from "../support/local-relay.ts";
import { bad, good, reasonOf, warn, type DoctorFinding } from "./finding.ts";

/** What the https transport offers beside its port. */
interface Reach {
  readonly connect: Connect;
  readonly hosts: ReadonlyMap<string, TlsIdentity>;
}
interface HasReach {
  reach(ctx: Pick<PluginContext, "connect" | "configDir" | "secret">): Reach;
}

const PROBE_MS = 10_000;
/** The name to look up: every public resolver knows it (RFC 2606). */
const KNOWN_NAME = "example.com";

/** Connects as a delivery would, and sends nothing. */
export async function checkPublicUrl(url: string, plan: Plan, io: CliEnvironment): Promise<DoctorFinding> {
  const { clock } = io;
  const ca = plan.guard.ca === undefined ? undefined : await readFile(plan.guard.ca, "utf8");
  const guard = createGuard({ ...plan.guard, ca, clock });
  const { connect, hosts } = reachOf(plan, guard.connect);
  const verdict = await guard.register(url);
  if (!verdict.ok) {
    const todo =
      verdict.allow === undefined ? todoFor() : `where that is meant, open it: guard: { allow: ["${verdict.allow}"] }`;
    return bad("url", `${url}: ${verdict.message} (${verdict.reason})`, todo, "outside");
  }
  const { hostname, port } = verdict;
  const deadline = new AbortController();
  const late = clock.sleep(clock.now() + PROBE_MS, deadline.signal).then(
    () => deadline.abort(new ConnectError("timeout", `no answer within ${PROBE_MS / 1_000} s`)),
    () => undefined,
  );
  const began = clock.monotonic();
  try {
    const socket = (await connect({ hostname, port, identity: hosts.get(hostname) }, deadline.signal)) as TLSSocket;
    const tookMs = Math.round(clock.monotonic() - began);
    const to = new Date(socket.getPeerCertificate().valid_to).toISOString().slice(0, 10);
    const found = `${verdict.href}: ${socket.remoteAddress} answers in ${tookMs} ms, ${socket.getProtocol()}, certificate until ${to}`;
    socket.destroy();
    return good("url", found);
  } catch (error) {
    const stage = error instanceof ConnectError ? error.stage : "connect";
    return bad("url", `${url}: ${stage}: ${(error as Error).message}`, todoFor(stage), "outside");
  } finally {
    deadline.abort();
    await late;
  }
}

/** How the https transport of the plan connects: with files of single hosts, through its proxy. */
function reachOf(plan: Plan, connect: Connect): Reach {
  const transport = plan.transports.find(({ name }) => name === "https") as Partial<HasReach> & TransportPlugin;
  if (transport?.reach === undefined) return { connect, hosts: new Map() };
  const secret = createSecretOptions({ env: process.env, configDir: plan.configDir }).of(transport);
  return transport.reach({ connect, configDir: plan.configDir, secret });
}

function todoFor(stage?: string): string {
  switch (stage) {
    case "dns":
      return "see that the name is right, and that the name servers of this machine know it";
    case "connect":
      return "see that it runs, and that no firewall stands between";
    case "timeout":
      return "see that no firewall drops packets to it without a word";
    case "tls":
      return "see its certificate: its name, its dates, its chain; an authority of your own goes into guard.ca";
    default:
      return "write it as https://host/path with a public host name; the operator opens internal ones in guard.allow";
  }
}

/** @param servers name servers of this machine; tests pass their own */
export async function checkDns(
  { clock }: CliEnvironment,
  servers: readonly string[] = getServers(),
): Promise<DoctorFinding> {
  if (servers.length === 0) return bad("dns", "no name server is set", "set one in /etc/resolv.conf");
  const who = servers.slice(0, 3).join(", ");
  const began = clock.monotonic();
  try {
    await dnsResolver(clock, servers)(KNOWN_NAME, new AbortController().signal);
    return good("dns", `${who} answers in ${Math.round(clock.monotonic() - began)} ms`);
  } catch (error) {
    const found = `${(error as Error).message} (asked ${who})`;
    return warn(
      "dns",
      found,
      "see that the name servers can be reached; where only internal hosts are called, it may stay so",
    );
  }
}

/** Whether the address is free, or this relay listens there already. */
export async function checkAddress(plan: Plan, io: CliEnvironment): Promise<DoctorFinding> {
  const { host, port } = plan.server;
  const asked = `${host}:${port}`;
  const error = await new Promise<NodeJS.ErrnoException | undefined>((resolve) => {
    const server = createServer();
    server.once("error", resolve);
    server.listen({ host, port }, () => server.close(() => resolve(undefined)));
  });
  if (error === undefined) return good("address", `${asked} is free`);
  if (error.code !== "EADDRINUSE") {
    const todo =
      error.code === "EACCES"
        ? "ports below 1024 need a right of their own: take a higher one"
        : "give an address of this machine as server.host";
    return bad("address", `${asked} cannot be listened on: ${systemReason(error)}`, todo);
  }
  if (!(await isRelay(plan, io)))
    return bad("address", `${asked} is taken by something else`, "stop that, or give another server.port");
  switch (await whose(plan, io)) {
    case "ours":
      return good("address", `this relay listens on ${asked}`);
    case "another":
      return bad("address", `another relay listens on ${asked}`, "stop that one, or give another server.port");
    case "unknown":
      return warn(
        "address",
        `a relay listens on ${asked}; no token can be signed here to ask it whether it is this one`,
        "where it is another one, stop it, or give another server.port",
      );
  }
}

/** The certificate is not checked: it is for the relay's public name, not for this address. */
const isRelay = (plan: Plan, io: Pick<CliEnvironment, "clock">): Promise<boolean> =>
  probe(`${localUrl(plan)}/healthz`, io, { verify: false }).then(
    ({ status }) => status === 200,
    () => false,
  );

/** A relay of this folder knows the tokens that its own signing key signs; another one refuses them. */
async function whose(plan: Plan, io: CliEnvironment): Promise<"ours" | "another" | "unknown"> {
  let missing = false;
  const token = await signToken(plan, io, { mfa: false, ttlSeconds: 60 }).catch(({ cause }: Error) => {
    missing = cause !== undefined && reasonOf(cause) === "ENOENT";
    return undefined;
  });
  // Where there is no signing key, this relay has never been started. One that cannot be read may be that of the relay there.
  if (token === undefined) return missing ? "another" : "unknown";
  const url = `${localUrl(plan)}/relay/status`;
  const status = await probe(url, io, { verify: false, token }).then(
    (answer) => answer.status,
    () => 0,
  );
  return status === 200 ? "ours" : status === 401 ? "another" : "unknown";
}
