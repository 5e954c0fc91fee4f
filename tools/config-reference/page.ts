// The text of docs/config.md: every key of the config, every variable, and the options of the plug-ins and jobs.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { defaultRows } from "../../config/limits.ts";
import { documentation, interfaceFields, type Field } from "./interfaces.ts";
import { defaultOf, ruleOf, topKeys } from "./rules.ts";
import { VARIABLES } from "./variables.ts";

/** Where the fields of options with a name of their own are written. */
const NAMED: Readonly<Record<string, string>> = {
  RetrySettings: "core/model/subscription.ts",
  StepUpRule: "core/model/token.ts",
  TransformLimits: "core/model/transform.ts",
  ...Object.fromEntries(
    ["Server", "Delivery", "Guard", "Abuse", "Health", "Signature", "Intake"].map((name) => [
      `${name}Options`,
      "core/ports/plan.ts",
    ]),
  ),
  PortalOptions: "config/define.ts",
};

/** Plug-ins: how they are called, and the interface of their options. */
const PLUGINS = [
  ["sqlite({ … })", "SqliteOptions", "plugins/storage/sqlite.ts"],
  ["filesystem({ … })", "FilesystemOptions", "plugins/storage/filesystem.ts"],
  ["redis({ … })", "RedisOptions", "plugins/storage/redis/options.ts"],
  ["postgres({ … })", "PostgresStorageOptions", "plugins/storage/postgres/options.ts"],
  ["http({ … })", "HttpOptions", "plugins/source/http.ts"],
  ["webhooks([{ … }])", "WebhookEndpoint", "plugins/source/webhooks/scheme.ts"],
  ["hmac({ … })", "HmacOptions", "plugins/source/webhooks/scheme.ts"],
  ["spool({ … })", "SpoolOptions", "plugins/source/spool.ts"],
  ["Sources of messages", "MessageOptions", "plugins/source/messages/message.ts"],
  ["Outboxes: fromMysql, fromPostgres", "OutboxOptions", "plugins/source/outbox/wanted.ts"],
  ["Columns of an outbox", "OutboxColumns", "plugins/source/outbox/layout.ts"],
  ["fromAmqp({ … })", "FromAmqpOptions", "plugins/source/amqp/session.ts"],
  ["fromKafka({ … })", "FromKafkaOptions", "plugins/source/kafka/session.ts"],
  ["fromMqtt({ … })", "FromMqttOptions", "plugins/source/mqtt/session.ts"],
  ["fromMysql({ … })", "MysqlOptions", "plugins/source/mysql/source.ts"],
  ["fromNats({ … })", "FromNatsOptions", "plugins/source/nats/session.ts"],
  ["fromPostgres({ … })", "PostgresOptions", "plugins/source/postgres/source.ts"],
  ["fromPubSub({ … })", "FromPubSubOptions", "plugins/source/pubsub/session.ts"],
  ["fromRedisStream({ … })", "FromRedisStreamOptions", "plugins/source/redis-stream/source.ts"],
  ["fromSqs({ … })", "FromSqsOptions", "plugins/source/sqs/session.ts"],
  ["cron({ … })", "CronOptions", "plugins/source/cron/ticking.ts"],
  ["https({ … })", "HttpsOptions", "plugins/transport/https.ts"],
  ["toAmqp({ … })", "ToAmqpOptions", "plugins/transport/amqp/transport.ts"],
  ["toFile({ … })", "FileOptions", "plugins/transport/file/transport.ts"],
  ["toKafka({ … })", "ToKafkaOptions", "plugins/transport/kafka/transport.ts"],
  ["toMail({ … })", "MailOptions", "plugins/transport/mail/transport.ts"],
  ["toMqtt({ … })", "ToMqttOptions", "plugins/transport/mqtt/transport.ts"],
  ["toNats({ … })", "ToNatsOptions", "plugins/transport/nats/transport.ts"],
  ["toPubSub({ … })", "ToPubSubOptions", "plugins/transport/pubsub/transport.ts"],
  ["toRedisStream({ … })", "ToRedisStreamOptions", "plugins/transport/redis-stream/transport.ts"],
  ["toS3({ … })", "ToS3Options", "plugins/transport/s3/transport.ts"],
  ["toSqs({ … })", "ToSqsOptions", "plugins/transport/sqs/transport.ts"],
  ["fromSqs(), toSqs() and toS3()", "AwsOptions", "plugins/brokers/aws.ts"],
  ["fromPubSub() and toPubSub()", "PubSubOptions", "plugins/brokers/pubsub.ts"],
  ["accounts({ … })", "AccountsOptions", "plugins/auth/accounts.ts"],
  ["jwt({ … })", "JwtOptions", "plugins/auth/jwt/options.ts"],
  ["otlp({ … })", "OtlpOptions", "plugins/observer/otlp/settings.ts"],
] as const;

/** The guide to each section, where there is one. */
const GUIDES: Readonly<Record<string, string>> = {
  server: "[operate](operate.md)",
  transformLimits: "[transforms](transforms.md#where-they-run)",
  retry: "[retries](retries.md)",
  delivery: "[receivers that are slow](operate.md#receivers-that-are-slow)",
  guard: "[the guard](transports-https.md#the-guard)",
  abuse: "[limits](api.md#limits)",
  stepUp: "[accounts](api.md#accounts)",
  health: "[when a receiver is down](retries.md#when-a-receiver-is-down)",
  signature: "[verify](verify.md)",
  notify: "[notifications](notifications.md)",
  intake: "[publishers that flood](operate.md#publishers-that-flood)",
  metrics: "[observe](observe.md)",
  log: "[metrics and log](metrics.md)",
  gateway: "[the gateway](gateway.md)",
  portal: "[the portal](portal.md)",
};

/**
 * @param root the checkout
 * @throws Error when the schema and the docstrings do not name the same keys, or give different defaults
 */
export function pageOf(root: string): string {
  const read = (file: string): string => readFileSync(join(root, file), "utf8");
  const keys = interfaceFields(read("config/define.ts"), "RelayConfig");
  const missing = topKeys().filter((name) => !keys.some((field) => field.name === name));
  if (missing.length > 0) throw new Error(`config/define.ts does not describe ${missing.join(", ")}`);
  const inside = ({ type }: Field): readonly Field[] | undefined => {
    if (typeof type !== "string") return type;
    const name =
      /^(?:Partial<(\w+)>|(\w+)$)/
        .exec(type)
        ?.slice(1)
        .find((one) => one !== undefined) ?? "";
    const file = NAMED[name];
    return file === undefined
      ? undefined
      : interfaceFields(read(file), name).map((one) => ({ ...one, optional: true }));
  };
  return [
    read("tools/config-reference/head.md").trim(),
    environment(),
    `## Top level\n\n${configList(
      keys.filter((field) => inside(field) === undefined && field.name !== "limits"),
      [],
    )}`,
    ...keys.flatMap((field) => {
      if (field.name === "limits") return [limits()];
      const fields = inside(field);
      return fields === undefined ? [] : [section(field, fields)];
    }),
    jobs(read("config/jobs.ts")),
    "## Plug-ins\n\n`memory()` has no options that need setting, and `unstorage(driver)` takes [a driver](storage.md#any-unstorage-driver).",
    ...PLUGINS.map(([call, name, file]) => `### ${call}\n\n${optionList(interfaceFields(read(file), name))}`),
  ]
    .join("\n\n")
    .concat("\n");
}

/** Returns the text of a field; the head of the page and the name say the unit of a duration. */
const withoutUnit = ({ name, text }: Field): string =>
  name.endsWith("Ms") ? text.replaceAll(/,? in (?:milliseconds|ms)(?=[.;:,])|, ms(?=[.;:,])/g, "") : text;

function section(field: Field, fields: readonly Field[]): string {
  const guide = GUIDES[field.name];
  const about = [field.text, guide === undefined ? "" : `See ${guide}.`].filter((text) => text !== "");
  return [`## ${field.name}`, ...about, configList(fields, [field.name])].join("\n\n");
}

function configList(fields: readonly Field[], above: readonly string[]): string {
  const items = fields.flatMap((field): readonly Item[] => {
    const path = [...above, field.name];
    if (typeof field.type !== "string") return nested(field, path);
    const rule = withDurations(ruleOf(path), field.name);
    return [[path.join("."), [rule, defaultText(field, path)], withoutUnit(field)]];
  });
  return list(items);
}

/** An object inside a section, such as `server.tls`: an item for itself and one for each of its keys. */
const nested = (field: Field, path: readonly string[]): readonly Item[] => [
  [path.join("."), ["an object", stated(field.default ?? "")], field.text],
  ...(field.type as readonly Field[]).map((inner): Item => [[...path, inner.name].join("."), [ruleOf([...path, inner.name]), "required"], inner.text]),
]; // prettier-ignore

/** The default that the code holds; where it holds none, what the docstring says. The two may not differ. */
function defaultText(field: Field, path: readonly string[]): string {
  const value = field.optional ? defaultOf(path) : undefined;
  if (value === undefined) return optionDefault(field);
  const written = JSON.stringify(value);
  const said = field.default?.replaceAll("_", "");
  if (said !== undefined && said !== written)
    throw new Error(`${path.join(".")}: the docstring says ${said}, the default is ${written}`);
  return stated(code(written, field.name));
}

/** Returns the default as the docstring says it, numbers, texts and lists as code; nothing where there is none. */
function optionDefault({ name, optional, default: said }: Field): string {
  if (!optional) return "required";
  if (said === undefined) return "";
  const [, value = "", rest = ""] = /^([\d_]+|".*?"|\[.*?\]|\w+\(\))((?:,| \(| in ).*)?$/.exec(said) ?? [];
  return stated(
    value === "" ? said : `${code(value.replaceAll(/(?<=\d)_(?=\d)/g, ""), name)}${rest.startsWith(" (") ? "" : rest}`,
  );
}

/** A default that is code needs no word: the head of the page says so. */
const stated = (value: string): string =>
  ["", "none"].includes(value) ? "" : value.startsWith("`") ? value : `default ${value}`;

function code(value: string, name: string): string {
  const human = /^\d+$/.test(value) ? duration(Number(value), name) : undefined;
  return `\`${value}\`${human === undefined ? "" : ` (${human})`}`;
}

function limits(): string {
  const groups = Map.groupBy(Object.entries(defaultRows), ([, row]) =>
    row === false ? "Off" : `${row.perMinute} in 60 seconds, ${row.per5s} in 5 seconds`,
  );
  return [
    "## limits",
    'Requests that one caller may make in 60 seconds (`perMinute`) and in 5 seconds (`per5s`), by operation. A row in the config replaces the row here: `"GET /v1/qr": { perMinute: 60, per5s: 10 }`. `false` switches a row off, `"*": false` all but those named beside it. `POST /events` has no row unless the config gives it one. `check: { token }` opens `GET /limits/check`: [external rate-limit check](proxies.md).',
    ...[...groups].map(
      ([bounds, rows]) => `${bounds}:\n\n\`\`\`text\n${rows.map(([name]) => name).join("\n")}\n\`\`\``,
    ),
  ].join("\n\n");
}

function jobs(source: string): string {
  const made = [...source.matchAll(/\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\nexport function (\w+)/g)].map(
    ([, comment = "", name]) => {
      const [text = "", ...parameters] = comment.split(/ ?@param options\./);
      const items = parameters.map((parameter): Item => {
        const [, option = "", rest = ""] = /^(\w+) ?([\s\S]*)$/.exec(parameter) ?? [];
        const said = documentation(rest);
        const value = said.default?.replaceAll("\\/", "/");
        return [
          option,
          [optionDefault({ ...said, name: option, optional: true, type: "", default: value })],
          said.text,
        ];
      });
      return `### ${name}({ … })\n\n${documentation(text).text}\n\n${list(items)}`;
    },
  );
  return ["## Jobs\n\nWhat runs by the clock, in `jobs`. Schedules are cron expressions in UTC.", ...made].join("\n\n");
}

const environment = (): string =>
  `## Environment\n\nKeys are 32 bytes in base64. Keys and a publish token that are not given are made at the first start.\n\n${list(Object.entries(VARIABLES).map(([name, text]): Item => [name, [], text]))}`;

const optionList = (fields: readonly Field[]): string =>
  list(fields.map((field): Item => [field.name, [optionDefault(field)], withoutUnit(field)]));

/** A key, its value and default, and its meaning. */
type Item = readonly [name: string, facts: readonly string[], text: string];

/** Returns a list: the cells of a table would take as many words again. */
const list = (items: readonly Item[]): string =>
  items
    .map(([name, facts, text]) => {
      const known = facts.filter((fact) => fact !== "").join("; ");
      return `- \`${name}\`${known === "" ? "" : ` (${known})`}${text === "" ? "" : `: ${text}`}`;
    })
    .join("\n");

const UNITS = [[31_536_000_000, "years"], [86_400_000, "days"], [3_600_000, "h"], [60_000, "min"], [1_000, "s"]] as const; // prettier-ignore

/** A number of milliseconds for people; `undefined` where it is short, or no time at all. */
function duration(ms: number, name: string): string | undefined {
  if (!name.endsWith("Ms")) return undefined;
  const [size, unit] = UNITS.find(([each]) => ms >= each && ms % each === 0) ?? [];
  return size === undefined ? undefined : `${ms / size} ${ms === size ? unit?.replace(/s$/, "") || unit : unit}`;
}

/** Returns `1000–86400000` with what that is in larger units. */
const withDurations = (rule: string, name: string): string =>
  rule.replaceAll(/\d{4,}/g, (digits) => {
    const human = duration(Number(digits), name);
    return human === undefined ? digits : `${digits} (${human})`;
  });
