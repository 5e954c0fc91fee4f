/** Tells what is wrong with a config: every problem at once, each with where it is and what to do. */
import { StartError } from "../core/model/errors.ts";

export interface ConfigProblem {
  /** `server.port`, `sources[0].tokens[1]`, `RELAY_PORT`; empty for the config itself. Never holds a value. */
  readonly path: string;
  readonly message: string;
}

/** sysexits EX_CONFIG */
export const EX_CONFIG = 78;

/** The config cannot be used. Its message lists every problem, one a line. */
export class ConfigError extends StartError {
  readonly problems: readonly ConfigProblem[];
  /** The file, or undefined when there is none. */
  readonly file: string | undefined;
  constructor(problems: readonly ConfigProblem[], file?: string, options?: ErrorOptions) {
    super(EX_CONFIG, sentence(problems, file), options);
    this.name = "ConfigError";
    this.problems = problems;
    this.file = file;
  }
}

function sentence(problems: readonly ConfigProblem[], file: string | undefined): string {
  const many = problems.length === 1 ? "a problem" : `${problems.length} problems`;
  const lines = problems.map(({ path, message }) => `  ${path === "" ? "" : `${path}: `}${message}`);
  return [`The config has ${many}${file === undefined ? "" : ` (${file})`}:`, ...lines].join("\n");
}

/** `["server", "port"]` → `server.port`; names that are no words stand in brackets. */
export function pathText(path: readonly PropertyKey[]): string {
  let text = "";
  for (const part of path) {
    if (typeof part === "number") text += `[${part}]`;
    else if (/^[A-Za-z_$][\w$]*$/.test(String(part))) text += text === "" ? String(part) : `.${String(part)}`;
    else text += `[${JSON.stringify(String(part))}]`;
  }
  return text;
}

/** The known name that was probably meant, as a hint: ` (did you mean "port"?)`, or nothing. */
export function didYouMean(name: string, known: readonly string[]): string {
  const best = known
    .map((candidate) => ({ candidate, far: distance(name.toLowerCase(), candidate.toLowerCase()) }))
    .sort((a, b) => a.far - b.far)[0];
  return best !== undefined && best.far <= Math.max(2, Math.floor(best.candidate.length / 5))
    ? ` (did you mean "${best.candidate}"?)`
    : "";
}

/** Levenshtein's distance; names longer than 100 are never near anything. */
function distance(a: string, b: string): number {
  if (a.length > 100 || b.length > 100) return Number.POSITIVE_INFINITY;
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const swap = (row[j - 1] as number) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min((row[j] as number) + 1, (next[j - 1] as number) + 1, swap));
    }
    row = next;
  }
  return row[b.length] as number;
}
