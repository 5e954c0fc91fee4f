/** `relay status`: shows the state of a running relay. */
import { type CliEnvironment, paint } from "../support/environment.ts";
import { openApi } from "../support/client.ts";
import { API_OPTIONS, type Command, JSON_OPTION } from "../support/command.ts";
import { EX_OK, EX_TEMPFAIL } from "../support/exit.ts";
import { fields, json, printable } from "../support/output.ts";
import { askReady } from "../support/readiness.ts";
import { record } from "../support/response-shape.ts";

type Group = Readonly<Record<string, unknown>>;
interface Status {
  readonly node: Group;
  readonly storage: Group;
  readonly backlog: Group;
  readonly parts?: Readonly<Record<string, { readonly ready?: boolean; readonly state?: string }>>;
}

const status: Command = {
  usage: "status",
  about: "show how the relay is: node, parts, storage, backlog",
  options: [
    { flags: "--ready", about: "only ask whether it is ready, without a token; 75 when it is not" },
    JSON_OPTION,
    ...API_OPTIONS,
  ],
  async run(given, io) {
    if (given.flag("ready")) {
      const { url, ready, parts } = await askReady(given, io);
      if (given.flag("json")) io.print(json({ ready, parts: Object.fromEntries(parts) }));
      else io.print(fields([["relay", url], ...parts]));
      return ready ? EX_OK : EX_TEMPFAIL;
    }
    const api = await openApi(given, io);
    const answer = await api.ask("GET", "/relay/status");
    const now = record<Status>(answer, { node: "any", storage: "any", backlog: "any" });
    if (given.flag("json")) io.print(json(now));
    else io.print(readable(api.base, now, io));
  },
};

function readable(base: string, { node, storage, backlog, parts = {}, ...more }: Status, io: CliEnvironment): string {
  const wrong = Object.entries(parts).filter(([, part]) => part.ready !== true);
  const ready =
    wrong.length === 0
      ? paint(io.stdout, "green", "ready")
      : paint(
          io.stdout,
          "red",
          `not ready: ${printable(wrong.map(([name, { state }]) => `${name} ${state ?? ""}`.trim()).join(", "))}`,
        );
  const { version, state, uptimeMs, rssBytes, ...where } = node;
  const { waiting, leased, underWay, oldestDueAt } = backlog;
  const late = typeof oldestDueAt === "string" ? io.clock.now() - Date.parse(oldestDueAt) : 0;
  const rows: (readonly [string, string | number | undefined])[] = [
    ["relay", `${base}, version ${text(version)}, ${text(state)} for ${span(uptimeMs)}`],
    [
      "process",
      [...Object.entries(where).map(([name, value]) => `${name} ${text(value)}`), `memory ${size(rssBytes)}`].join(
        ", ",
      ),
    ],
    ["storage", told(storage)],
    ["backlog", `${text(waiting)} waiting, ${text(leased)} leased, ${text(underWay)} under way here`],
    [
      "oldest due",
      oldestDueAt === undefined ? undefined : `${text(oldestDueAt)}${late > 0 ? `, ${span(late)} late` : ""}`,
    ],
    ...Object.entries(more).map(([name, value]) => [name, told(value)] as const),
  ];
  return `${ready}\n${fields(rows)}`;
}

/** `{ rows: 3, logBytes: 2048 }` → `rows 3, logBytes 2.0 KiB` */
function told(value: unknown): string {
  if (typeof value !== "object" || value === null) return text(value);
  return Object.entries(value)
    .map(([name, inner]) =>
      name === "name" || name === "durability"
        ? text(inner)
        : `${name} ${/bytes$/i.test(name) ? size(inner) : text(inner)}`,
    )
    .join(", ");
}

const text = (value: unknown): string =>
  typeof value === "object" ? JSON.stringify(value) : String(value as string | number | boolean);

function size(bytes: unknown): string {
  if (typeof bytes !== "number") return text(bytes);
  const power = Math.min(4, Math.max(0, Math.floor(Math.log2(Math.max(1, bytes)) / 10)));
  return power === 0
    ? `${bytes} B`
    : `${(bytes / 1_024 ** power).toFixed(1)} ${["", "KiB", "MiB", "GiB", "TiB"][power]}`;
}

/** The two largest units of a duration. */
function span(ms: unknown): string {
  if (typeof ms !== "number") return text(ms);
  const seconds = Math.floor(ms / 1_000);
  const [d, h, m, s] = [
    Math.floor(seconds / 86_400),
    Math.floor(seconds / 3_600) % 24,
    Math.floor(seconds / 60) % 60,
    seconds % 60,
  ];
  if (d > 0) return `${d} d ${h} h`;
  return h > 0 ? `${h} h ${m} min` : m > 0 ? `${m} min ${s} s` : `${s} s`;
}

export const commands: readonly Command[] = [status];
