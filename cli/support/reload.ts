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
import { jsonIn, objectOf } from "./inputs.ts";
import type { StartedBy } from "./transform-processes.ts";

/** A plan without secrets, with plug-ins by their names. Durations and paths are those in force. */
type Effective = Reloadable & Readonly<Record<string, unknown>>;

const SHOWN = (
  "dataDir server events eventTypes retry delivery guard limits abuse stepUp health signature transforms transformLimits " +
  "observers subscriptions intake log gateway jobs dashboard storage sources transports auth"
).split(" ") as readonly (keyof Plan)[];

export function effective(plan: Plan): Effective {
  const names = (plugins: readonly { readonly name: string }[]): string[] => plugins.map(({ name }) => name);
  const { transforms, observers, storage, sources, transports, auth } = plan;
  const named = {
    ...{ transforms: Object.keys(transforms), observers: names(observers), storage: storage.name },
    ...{ sources: names(sources), transports: names(transports), auth: auth.name },
  };
  const all = { ...plan, ...named };
  return Object.fromEntries(SHOWN.map((name) => [name, all[name]])) as Effective;
}

/** Parts of a plan that may change while the relay runs. */
const LIVE: ReadonlySet<string> = new Set(["limits", "abuse", "events", "eventTypes", "transforms", "log"]);

/** Set for the process that reads the config again: it then prints digests of what may hold secrets, made with this. */
export const DIGEST_KEY = "RELAY_DIGEST_KEY";

/** Digests of the parts of a plan that may hold secrets: enough to see that one was changed. @param key never stored */
export function digests(plan: Plan, key: string): Readonly<Record<string, string>> {
  const { limitsCheck, metrics, notify, portal, keys } = plan;
  const parts = { "limits.check": limitsCheck, metrics, notify, portal, keys };
  return Object.fromEntries(
    Object.entries(parts).map(([name, part]) => {
      const text = JSON.stringify(part) ?? "";
      return [name, createHmac("sha256", key).update(text).digest("base64url")];
    }),
  );
}

const digestKey = randomBytes(32).toString("base64url");

/** The result of reading the config again: a plan, or every problem. */
type Reread = { readonly ok: true; readonly plan: Effective } | { readonly ok: false; readonly problems: Problems };
type Problems = readonly { readonly path: string; readonly message: string }[];

/** A config that takes longer than this to read is refused, ms. */
const READ_MS = 30_000;

/** Reads the config again as it was read at the start: flags still win over environment and file. */
export function rereader({ flags, env, cwd }: StartedBy): () => Promise<Reread> {
  const entry = isSea() ? [] : [process.argv[1] as string];
  const args = [...entry, "check", "--json"];
  if (flags.config !== undefined) args.push("--config", flags.config);
  if (flags.dataDir !== undefined) args.push("--data-dir", flags.dataDir);
  // `check` has no flags for these: the environment wins over the file as well.
  const more = { RELAY_HOST: flags.host, RELAY_PORT: flags.port?.toString(), RELAY_LOG_LEVEL: flags.logLevel };
  const own = Object.fromEntries(Object.entries(more).filter(([, value]) => value !== undefined));
  const options = {
    cwd,
    env: { ...env, ...own, [DIGEST_KEY]: digestKey },
    timeout: READ_MS,
    maxBuffer: 16 * 1024 * 1024,
  };
  return () =>
    new Promise((resolve) => {
      execFile(process.execPath, args, options, (error, stdout, stderr) => {
        const { ok, plan, problems } = (objectOf(jsonIn(stdout)) ?? {}) as Readonly<Record<string, unknown>>;
        if (ok === true && plan !== undefined) return resolve({ ok, plan: plan as Effective });
        const message = stderr.trim() || (error?.message ?? "it cannot be read");
        const why = Array.isArray(problems) ? (problems as Problems) : [{ path: "", message }];
        resolve({ ok: false, problems: why });
      });
    });
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
