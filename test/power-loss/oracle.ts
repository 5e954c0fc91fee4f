/** Knows what must be found, as far as the process has said: each writer's rows after what was acknowledged to it. */
import { applied, SCRIPTS, type Script, type ScriptName } from "./scripts.ts";

type Rows = ReadonlyMap<string, string>;

/** The rows that one writer may have: more than one thing after a commit of which nobody knows whether it happened. */
interface Writer {
  sure: readonly Rows[];
  /** The rows if the commit under way happens. */
  under: readonly Rows[] | undefined;
}

export class Oracle {
  #script: Script;
  #writers: readonly Writer[];
  readonly #owner = new Map<string, number>();

  /** Nothing is stored when the script begins. */
  constructor(script: ScriptName) {
    this.#script = SCRIPTS[script];
    this.#writers = this.#script.writers.map(() => ({ sure: [new Map()], under: undefined }));
    this.#own();
  }

  /** The process died, and another plays a script with the same writers. What was under way may have happened or not. */
  next(script: ScriptName): void {
    this.#script = SCRIPTS[script];
    this.#writers = this.#script.writers.map((_, writer) => {
      const { sure = [new Map()], under } = this.#writers[writer] ?? {};
      return { sure: under === undefined ? sure : unique([...sure, ...under]), under: undefined };
    });
    this.#own();
  }

  #own(): void {
    for (const [writer, deeds] of this.#script.writers.entries()) {
      for (const deed of deeds) if (deed !== "idle") for (const { key } of deed) this.#owner.set(key, writer);
    }
  }

  #part(rows: Rows, writer: number): Rows {
    return new Map([...rows].filter(([key]) => this.#owner.get(key) === writer));
  }

  hear(line: string): void {
    const [what, number, index, fault] = line.split(" ");
    const writer = this.#writers[Number(number)];
    const deed = this.#script.writers[Number(number)]?.[Number(index)];
    if (writer === undefined || deed === undefined || deed === "idle") return;
    if (what === "do") writer.under = writer.sure.map((rows) => applied(rows, deed));
    else if (what === "ok") writer.sure = unique(writer.sure.map((rows) => applied(rows, deed)));
    else if (fault === "uncertain")
      writer.sure = unique([...writer.sure.map((rows) => applied(rows, deed)), ...writer.sure]);
    if (what !== "do") writer.under = undefined;
  }

  /** @returns what is wrong with these rows; `undefined` when they may be found now */
  judge(rows: Rows): string | undefined {
    for (const key of rows.keys()) if (!this.#owner.has(key)) return `nobody stored ${key}`;
    for (const [number, { sure, under }] of this.#writers.entries()) {
      const found = this.#part(rows, number);
      const allowed = [...sure, ...(under ?? [])];
      if (!allowed.some((one) => same(one, found)))
        return `writer ${number}: ${difference(sure.at(-1) as Rows, found)}`;
    }
    return undefined;
  }
}

const same = (a: Rows, b: Rows): boolean => a.size === b.size && [...a].every(([key, value]) => b.get(key) === value);

const unique = (all: readonly Rows[]): readonly Rows[] =>
  all.filter((one, index) => all.findIndex((other) => same(one, other)) === index);

function difference(wanted: Rows, found: Rows): string {
  const cut = (value: string | undefined): string => (value === undefined ? "nothing" : value.slice(0, 12));
  const keys = [...new Set([...wanted.keys(), ...found.keys()])].filter((key) => wanted.get(key) !== found.get(key));
  const some = keys.slice(0, 4).map((key) => `${key} is ${cut(found.get(key))} for ${cut(wanted.get(key))}`);
  return `${keys.length} rows differ from what was acknowledged: ${some.join(", ")}`;
}
