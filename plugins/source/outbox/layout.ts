/** The table of an outbox as its config names it, and as its database says that it is: whether the two fit. */

/** Names of columns, as they stand in the database, by what they hold. */
export interface OutboxColumns {
  /** Tells rows apart: a whole number, a uuid, text or bytes, never used twice. @default "id" */
  readonly id?: string;
  /** A whole event, or a list of them. @default "event" */
  readonly event?: string;
  /** The data of the event, as JSON, in place of `event`. */
  readonly payload?: string;
  /** The type of the event, beside `payload`. */
  readonly type?: string;
  /** The API key of the event, beside `payload`. */
  readonly key?: string;
  /** When the row was made. Rows whose ids do not grow are read in its order. @default "created_at", where there is one */
  readonly created?: string;
  /** Marks a row that is done: a time, or true and false. @default "done_at" */
  readonly done?: string;
  /** The transaction of the row, for `cursor`. @default "tx" */
  readonly tx?: string;
}

/** Columns of tables that others have defined. */
export const PRESETS = {
  /** https://debezium.io/documentation/reference/stable/transformations/outbox-event-router.html */
  debezium: { id: "id", type: "type", payload: "payload" },
} as const satisfies Readonly<Record<string, OutboxColumns>>;

export type ReadMode = "delete" | "mark" | "cursor";

/** What a column holds, as far as it matters here. */
export type Kind = "number" | "uuid" | "text" | "binary" | "json" | "time" | "flag" | "transaction";

export interface Column {
  readonly kind: Kind | undefined;
  /** In the words of the database. */
  readonly type: string;
}

/** A table as the database describes it. */
export interface Shape {
  readonly columns: ReadonlyMap<string, Column>;
  /** Names of the columns of the table of dead rows; `undefined`: there is none. */
  readonly dead: ReadonlySet<string> | undefined;
  /** Columns that an index begins with, and its name; `undefined` of a view. */
  readonly indexed: ReadonlyMap<string, string> | undefined;
  /** What else stands in the way, in the words of the dialect. */
  readonly faults: readonly string[];
  /** True where rows are found by their place in the file. */
  readonly hasPlaces?: boolean;
}

/** What a config asks for. */
export interface Wanted {
  readonly table: TableName;
  readonly columns: OutboxColumns;
  readonly mode: ReadMode;
  readonly dead: TableName;
  /** True when the config names the table of dead rows, which must be there then. */
  readonly needsDead: boolean;
}

/** A table that fits: which column holds what. */
export interface Layout {
  readonly table: TableName;
  /** `undefined`: bad rows stay where they are. */
  readonly dead: TableName | undefined;
  readonly mode: ReadMode;
  readonly id: string;
  readonly idKind: Kind;
  /** An index that begins with the id. */
  readonly idIndex: string | undefined;
  /** The column of the event, or of its data. */
  readonly body: string;
  readonly bodyKind: Kind;
  /** True when the row is the event, not the one column. */
  readonly isSplit: boolean;
  readonly created: string | undefined;
  readonly done: string;
  readonly doneKind: Kind | undefined;
  readonly tx: string;
  /** Columns that rows are read in the order of. */
  readonly order: readonly string[];
  readonly columns: Shape["columns"];
  readonly hasPlaces: boolean;
}

/** A table, its schema before it where one is named. */
export interface TableName {
  readonly parts: readonly string[];
  /** For people, and in the ids of events. */
  readonly label: string;
}

const PART = /(?:"((?:[^"]|"")+)"|`((?:[^`]|``)+)`|([A-Za-z_][A-Za-z0-9_$]*))(\.|$)/y;

/** Reads `orders`, `shop.orders`, or names in quotes: `"Shop"."order.events"`. @returns `undefined` for what is none */
export function tableName(text: string): TableName | undefined {
  const parts: string[] = [];
  for (PART.lastIndex = 0; PART.lastIndex < text.length;) {
    const found = PART.exec(text);
    if (found === null) return undefined;
    const part = found[1]?.replaceAll('""', '"') ?? found[2]?.replaceAll("``", "`") ?? (found[3] as string);
    if (part.length > 64 || /\p{Cc}/u.test(part)) return undefined;
    parts.push(part);
    if (found[4] === "" && PART.lastIndex === text.length && parts.length < 3) return { parts, label: parts.join(".") };
  }
  return undefined;
}

/** The table of dead rows that belongs to one whose config names none. */
export function deadBeside({ parts }: TableName): TableName {
  const own = [...parts.slice(0, -1), `${parts.at(-1)}_dead`];
  return { parts: own, label: own.join(".") };
}

const DEAD = ["id", "event", "code", "reason"];
const IDS: readonly Kind[] = ["number", "uuid", "text", "binary"];
const BODIES: readonly Kind[] = ["json", "text", "binary"];
const WORDS: Readonly<Record<Kind, string>> = {
  ...{ number: "a whole number", uuid: "a uuid", text: "text", binary: "bytes", json: "JSON" },
  ...{ time: "a time", flag: "true and false", transaction: "xid8" },
};

export interface Fit {
  readonly layout: Layout;
  /** What must be mended before a row can be read. */
  readonly faults: readonly string[];
  /** What works, but badly. */
  readonly hints: readonly string[];
}

/** Compares what the config names with what is there. */
export function fit({ table, columns, mode, dead, needsDead }: Wanted, shape: Shape): Fit {
  const faults = [...shape.faults];
  const hints: string[] = [];
  const nameOf = (what: keyof OutboxColumns, usual: string): string => columns[what] ?? usual;

  function needed(what: keyof OutboxColumns, usual: string, kinds: readonly Kind[]): Kind | undefined {
    const name = nameOf(what, usual);
    const found = shape.columns.get(name);
    const wish = `${table.label} needs a column ${name} with ${kinds.map((kind) => WORDS[kind]).join(" or ")}`;
    const other = columns[what] === undefined ? `; if another has it, name that: columns: { ${what}: "…" }` : "";
    if (found === undefined) faults.push(`${wish}: there is none${other}`);
    else if (found.kind === undefined || !kinds.includes(found.kind)) faults.push(`${wish}: it is ${found.type}`);
    else return found.kind;
    return undefined;
  }

  const isSplit = columns.payload !== undefined;
  const idKind = needed("id", "id", IDS) ?? "text";
  const bodyKind = (isSplit ? needed("payload", "", BODIES) : needed("event", "event", BODIES)) ?? "text";
  for (const what of ["type", "key"] as const)
    if (columns[what] !== undefined) needed(what, "", ["text", "uuid", "number"]);
  const doneKind = mode === "mark" ? needed("done", "done_at", ["time", "flag"]) : undefined;
  if (mode === "cursor") needed("tx", "tx", ["transaction"]);
  if (columns.created !== undefined) needed("created", "", ["time"]);
  const created = nameOf("created", "created_at");
  const hasTime = shape.columns.get(created)?.kind === "time";
  const id = nameOf("id", "id");
  const tx = nameOf("tx", "tx");
  const order = mode === "cursor" ? [tx, id] : idKind === "number" || !hasTime ? [id] : [created, id];

  if (mode !== "cursor") {
    const missing = DEAD.filter((name) => shape.dead?.has(name) === false);
    if (missing.length > 0) faults.push(`${dead.label} needs columns ${missing.join(", ")}`);
    if (shape.dead === undefined && needsDead) faults.push(`there is no table ${dead.label}`);
    else if (shape.dead === undefined)
      hints.push(`there is no table ${dead.label}: rows without a valid event are held`);
    if (idKind === "uuid" && !hasTime)
      hints.push(`no column says when a row was made: uuids that do not grow come in no order (columns: { created })`);
  }
  const [first = id] = order;
  if (shape.indexed?.has(first) === false)
    hints.push(`no index of ${table.label} begins with ${first}: each reading sorts the whole table`);
  const layout = {
    idIndex: shape.indexed?.get(id),
    ...{ table, mode, id, idKind, bodyKind, isSplit, doneKind, tx, order, columns: shape.columns },
    body: isSplit ? (columns.payload as string) : nameOf("event", "event"),
    dead: shape.dead === undefined ? undefined : dead,
    created: hasTime ? created : undefined,
    done: nameOf("done", "done_at"),
    hasPlaces: shape.hasPlaces === true,
  };
  return { layout, faults, hints };
}
