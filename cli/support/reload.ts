/**
 * Reloads the config at SIGHUP: reads it again, and applies what may change while the relay runs.
 *
 * A process of its own reads it (`relay check --json`): Node never loads the same module twice in one process, and a
 * config that hangs or throws must not disturb the running relay.
 */
import { execFile } from "node:child_process";
import { createHmac, randomBytes } from "node:crypto";
import { isSea } from "node:sea";
import type { Log } from "../../core/ports/plugin.ts";
import type { Relay, Reloadable } from "../../core/runtime/index.ts";
import type { Plan } from "../../core/ports/plan.ts";
import type { Given } from "./command.ts";

/** A plan without secrets, with plug-ins by their names. Durations and paths are those in force. */
type Effective = Reloadable & Readonly<Record<string, unknown>>;

export function effective(plan: Plan): Effective {
  const { dataDir, server, events, eventTypes, retry, delivery, guard, limits, abuse, stepUp, health, signature } =
    plan;
  const { subscriptions, intake, log, gateway, jobs, dashboard, storage, sources, transports, auth } = plan;
  const names = (plugins: readonly { readonly name: string }[]): string[] => plugins.map(({ name }) => name);
  const { transformLimits, transforms, observers } = plan;
  return {
    ...{ dataDir, server, events, eventTypes, retry, delivery, guard, limits, abuse, stepUp, health, signature },
    ...{ transforms: Object.keys(transforms), transformLimits, observers: names(observers) },
    ...{ subscriptions, intake, log, gateway, jobs, dashboard },
    ...{ storage: storage.name, sources: names(sources), transports: names(transports), auth: auth.name },
  };
}

/** Parts of a plan that may change while the relay runs. */
const LIVE: ReadonlySet<string> = new Set(["limits", "abuse", "events", "eventTypes", "transforms", "log"]);

/** Set for the process that reads the config again: it then prints digests of what may hold secrets, made with this. */
export const DIGEST_KEY = "RELAY_DIGEST_KEY";

/** Digests of the parts of a plan that may hold secrets: enough to see that one was changed. @param key never stored */
export function digests(plan: Plan, key: string): Readonly<Record<string, string>> {
  const { limitsCheck, metrics, notify, portal, keys } = plan;
  const digest = (part: unknown): string =>
    createHmac("sha256", key)
      .update(JSON.stringify(part) ?? "")
      .digest("base64url");
  return {
    "limits.check": digest(limitsCheck),
    metrics: digest(metrics),
    notify: digest(notify),
    portal: digest(portal),
    keys: digest(keys),
  };
}

const digestKey = randomBytes(32).toString("base64url");

/** The result of reading the config again: a plan, or every problem. */
type Reread =
  | { readonly ok: true; readonly plan: Effective }
  | { readonly ok: false; readonly problems: readonly { readonly path: string; readonly message: string }[] };

/** A config that takes longer than this to read is refused, ms. */
const READ_MS = 30_000;

/**
 * @param env the environment at the start: reading a config adds to the process's own
 * @param given the command line of the start: its flags still win over environment and file
 */
export function rereader(
  given: Given,
  env: Readonly<Record<string, string | undefined>>,
  cwd: string,
): () => Promise<Reread> {
  const args = ["check", "--json"];
  for (const name of ["config", "data-dir"]) {
    const value = given.text(name);
    if (value !== undefined) args.push(`--${name}`, value);
  }
  // `check` has no flags for these: the environment wins over the file as well.
  const flags: Record<string, string> = {};
  for (const [name, variable] of [
    ["host", "RELAY_HOST"],
    ["port", "RELAY_PORT"],
    ["log-level", "RELAY_LOG_LEVEL"],
  ] as const) {
    const value = given.text(name);
    if (value !== undefined) flags[variable] = value;
  }
  const entry = isSea() ? [] : [process.argv[1] as string];
  return () =>
    new Promise((resolve) => {
      const options = {
        cwd,
        env: { ...env, ...flags, [DIGEST_KEY]: digestKey },
        timeout: READ_MS,
        maxBuffer: 16 * 1024 * 1024,
      };
      execFile(process.execPath, [...entry, ...args], options, (error, stdout, stderr) => {
        const read = parsed(stdout);
        if (read !== undefined) return resolve(read);
        const message = stderr.trim() || (error?.message ?? "it cannot be read");
        resolve({ ok: false, problems: [{ path: "", message }] });
      });
    });
}

function parsed(text: string): Reread | undefined {
  try {
    const read = JSON.parse(text) as Partial<{ ok: boolean; plan: Effective; problems: [] }>;
    if (read.ok === true && read.plan !== undefined) return { ok: true, plan: read.plan };
    return Array.isArray(read.problems) ? { ok: false, problems: read.problems } : undefined;
  } catch {
    return undefined;
  }
}

/** @returns the handler of SIGHUP: one that comes during a reading causes another reading. Never rejects. */
export function reloader(
  relay: Pick<Relay, "reload">,
  plan: Plan,
  reread: () => Promise<Reread>,
  log: Log,
): () => Promise<void> {
  // Compared as JSON, as the child process prints it.
  let known = JSON.parse(JSON.stringify({ ...effective(plan), ...digests(plan, digestKey) })) as Effective;
  let reading: Promise<void> | undefined;
  let again = false;

  async function once(): Promise<void> {
    const read = await reread();
    if (!read.ok) {
      log.error("the config is refused, the old one holds", { count: read.problems.length });
      for (const { path, message } of read.problems) log.error("a problem of the config", { path, detail: message });
      return;
    }
    const changed = relay.reload(read.plan);
    const rest = Object.keys({ ...known, ...read.plan }).filter(
      (name) => !LIVE.has(name) && JSON.stringify(known[name]) !== JSON.stringify(read.plan[name]),
    );
    known = { ...known, ...Object.fromEntries([...LIVE].map((name) => [name, read.plan[name]])) } as Effective;
    log.info("the config is reloaded", { result: changed.join(" ") || "nothing changed" });
    if (rest.length > 0) log.warn("changes that take a restart", { detail: rest.join(" ") });
  }

  async function all(): Promise<void> {
    do {
      again = false;
      await once().catch((error: unknown) => log.error("the config cannot be reloaded", { error: String(error) }));
    } while (again);
    reading = undefined;
  }

  return () => {
    again = reading !== undefined;
    return (reading ??= all());
  };
}
