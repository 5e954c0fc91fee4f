/** `relay status`: shows the state of a running relay. */
import { readEnvironment } from "../../config/environment.ts";
import { type Shaped, shaped } from "../support/ask.ts";
import { checkBase, localUrl, openApi, whyNoAnswer } from "../support/client.ts";
import { API_OPTIONS, type Command, type Given, JSON_OPTION, loadFor } from "../support/command.ts";
import { type CliEnvironment, paint } from "../support/environment.ts";
import { EX_OK, EX_TEMPFAIL, EX_UNAVAILABLE, ExitError } from "../support/exit.ts";
import { jsonIn, objectOf } from "../support/inputs.ts";
import { probe } from "../support/network.ts";
import type { Plan } from "../../core/ports/plan.ts";
import { trustOf } from "../support/trust.ts";
import { fields, json, printable, textOf } from "../support/output.ts";

const STATUS = { node: "map", storage: "map", backlog: "map", "parts?": "map" } as const;
/** Reads the readiness of a part. */
const partOf = (part: unknown): { readonly ready?: boolean; readonly state?: string } => objectOf(part) ?? {};

const status: Command = {
  usage: "status",
  about: "show how the relay is: node, parts, storage, backlog",
  options: {
    "--ready": "only ask whether it is ready, without a token; 75 when it is not",
    ...JSON_OPTION,
    ...API_OPTIONS,
  },
  async run(given, io) {
    if (given.flag("ready")) return askReady(given, io);
    const api = await openApi(given, io);
    const now = shaped(await api.ask("GET", "/relay/status"), STATUS);
    io.print(given.flag("json") ? json(now) : readable(api.base, now, io));
  },
};

/** Asks without a token. @returns the exit code. @throws ExitError 69 when nobody answers, or something that is no relay */
async function askReady(given: Given, io: CliEnvironment): Promise<number> {
  const named = given.text("url") ?? readEnvironment(io.env).settings.url;
  const base = checkBase(named ?? localUrl((await loadFor(given, io)).plan));
  // On this machine the certificate is not checked: it is for the relay's public name, and no secret is sent.
  const trust =
    named === undefined ? undefined : ((await loadFor(given, io).then(trusted, () => undefined)) ?? "default");
  const { status, text } = await probe(`${base}/readyz`, io.clock, trust).catch((error: unknown) => {
    throw new ExitError(EX_UNAVAILABLE, `no answer from ${base}: ${whyNoAnswer(error)}`, { cause: error });
  });
  const parts = objectOf(objectOf(objectOf(jsonIn(text))?.["data"])?.["parts"]);
  if (parts === undefined || (status !== 200 && status !== 503))
    throw new ExitError(EX_UNAVAILABLE, `${base} answers ${status}, as no relay does`);
  const states = Object.entries(parts).map(([name, part]): [string, string] => {
    const { state, ready } = partOf(part);
    return [name, state ?? (ready ? "ready" : "not ready")];
  });
  const ready = status === 200;
  io.print(
    given.flag("json") ? json({ ready, parts: Object.fromEntries(states) }) : fields([["relay", base], ...states]),
  );
  return ready ? EX_OK : EX_TEMPFAIL;
}

const trusted = ({ plan }: { readonly plan: Plan }) => trustOf(plan, false);

function readable(base: string, now: Shaped<typeof STATUS>, io: CliEnvironment): string {
  const { node, storage, backlog, parts = {}, ...more } = now;
  const wrong = Object.entries(parts).filter(([, part]) => partOf(part).ready !== true);
  const names = wrong.map(([name, part]) => `${name} ${partOf(part).state ?? ""}`.trim()).join(", ");
  const ready =
    wrong.length === 0 ? paint(io.stdout, "green", "ready") : paint(io.stdout, "red", `not ready: ${printable(names)}`);
  const { version, state, uptimeMs, rssBytes, ...where } = node;
  const { waiting, leased, underWay, oldestDueAt } = backlog;
  const late = typeof oldestDueAt === "string" ? io.clock.now() - Date.parse(oldestDueAt) : 0;
  const oldest = oldestDueAt && `${textOf(oldestDueAt)}${late > 0 ? `, ${span(late)} late` : ""}`;
  const process = [
    ...Object.entries(where).map(([name, value]) => `${name} ${textOf(value)}`),
    `memory ${size(rssBytes)}`,
  ];
  const rows = {
    relay: `${base}, version ${textOf(version)}, ${textOf(state)} for ${span(uptimeMs)}`,
    process: process.join(", "),
    storage: described(storage),
    backlog: `${textOf(waiting)} waiting, ${textOf(leased)} leased, ${textOf(underWay)} under way here`,
    "oldest due": oldest as string | undefined,
  };
  const others = Object.entries(more).flatMap(([name, value]) =>
    [value].flat().map((one): [string, string] => [name, described(one)]),
  );
  return `${ready}\n${fields([...Object.entries(rows), ...others])}`;
}

/** `{ rows: 3, logBytes: 2048 }` → `rows 3, logBytes 2.0 KiB` */
function described(value: unknown): string {
  if (typeof value !== "object" || value === null) return textOf(value);
  return Object.entries(value)
    .map(([name, inner]) =>
      name === "name" || name === "durability"
        ? textOf(inner)
        : `${name} ${/bytes$/i.test(name) ? size(inner) : textOf(inner)}`,
    )
    .join(", ");
}

function size(bytes: unknown): string {
  if (typeof bytes !== "number") return textOf(bytes);
  const power = Math.min(4, Math.max(0, Math.floor(Math.log2(Math.max(1, bytes)) / 10)));
  return power === 0
    ? `${bytes} B`
    : `${(bytes / 1_024 ** power).toFixed(1)} ${["", "KiB", "MiB", "GiB", "TiB"][power]}`;
}

/** Returns the two largest units of a duration. */
function span(ms: unknown): string {
  if (typeof ms !== "number") return textOf(ms);
  const seconds = Math.floor(ms / 1_000);
  const [minutes, hours, d] = [60, 3_600, 86_400].map((unit) => Math.floor(seconds / unit)) as [number, number, number];
  const [h, m, s] = [hours % 24, minutes % 60, seconds % 60];
  if (d > 0) return `${d} d ${h} h`;
  return h > 0 ? `${h} h ${m} min` : m > 0 ? `${m} min ${s} s` : `${s} s`;
}

export const commands: readonly Command[] = [status];
