/** The work of a process on the disk, read from strace's record of its system calls. */

/** A flag of a call says when it counts: a sync covers what had ended when it began. */
export type Step =
  | { readonly op: "open"; readonly fd: number; readonly path: string; readonly create: boolean; readonly cut: boolean }
  | { readonly op: "close"; readonly fd: number }
  | { readonly op: "write"; readonly fd: number; readonly bytes: Buffer; readonly offset?: number }
  | { readonly op: "truncate"; readonly fd: number; readonly size: number }
  | { readonly op: "syncing"; readonly fd: number; readonly thread: string }
  | { readonly op: "synced"; readonly fd: number; readonly thread: string; readonly ok: boolean }
  | { readonly op: "rename" | "link"; readonly path: string; readonly to: string }
  | { readonly op: "unlink" | "mkdir" | "rmdir"; readonly path: string }
  /** The process wrote a line to its standard output. */
  | { readonly op: "say"; readonly line: string };

/** Calls that change what is on the disk, or that the steps need in order to know which file is meant. */
export const CALLS = [
  ..."open openat creat close write pwrite64 writev pwritev ftruncate truncate fallocate fsync fdatasync".split(" "),
  ..."rename renameat renameat2 link linkat unlink unlinkat mkdir mkdirat rmdir dup dup2 dup3 copy_file_range".split(
    " ",
  ),
];

interface Call {
  readonly name: string;
  readonly args: string;
  readonly thread: string;
}

const BEGIN = /^(\d+) +(\w+)\((.*)$/s;
const RESUMED = /^(\d+) +<\.\.\. (\w+) resumed>(.*)$/s;
const RESULT = /^(.*)\) += (-?\d+)(?: .*)?$/s;
const UNFINISHED = " <unfinished ...>";

/** @throws Error at a call that it does not know how to replay */
export function* stepsOf(trace: string): Generator<Step> {
  const begun = new Map<string, Call>();
  for (const line of trace.split("\n")) {
    const resumed = RESUMED.exec(line);
    if (resumed !== null) {
      const [, thread = "", , rest = ""] = resumed;
      const call = begun.get(thread);
      begun.delete(thread);
      if (call !== undefined) yield* finished({ ...call, args: call.args + rest });
      continue;
    }
    const [, thread, name, rest = ""] = BEGIN.exec(line) ?? [];
    if (thread === undefined || name === undefined) continue;
    const unfinished = rest.endsWith(UNFINISHED);
    const call: Call = { name, thread, args: unfinished ? rest.slice(0, -UNFINISHED.length) : rest };
    yield* started(call);
    if (unfinished) begun.set(thread, call);
    else yield* finished(call);
  }
  for (const call of begun.values()) yield* finished(call);
}

function* started({ name, args, thread }: Call): Generator<Step> {
  const fd = Number.parseInt(args, 10);
  if (name === "close") yield { op: "close", fd };
  else if (name === "fsync" || name === "fdatasync") yield { op: "syncing", fd, thread };
  else if (name === "write" && fd === 1) {
    for (const line of textOf(args).toString().split("\n")) if (line !== "") yield { op: "say", line };
  }
}

function* finished(call: Call): Generator<Step> {
  const { name, thread } = call;
  const [, args, code] = RESULT.exec(call.args) ?? [];
  const result = Number(code);
  const fd = Number.parseInt(call.args, 10);
  // A process that was killed in the middle of it never learned of a sync that failed.
  if (name === "fsync" || name === "fdatasync") return yield { op: "synced", fd, thread, ok: result === 0 };
  if (args === undefined || result < 0) return;
  const [path = "", to = ""] = pathsOf(args);
  switch (name) {
    case "open":
    case "openat":
      return yield { op: "open", fd: result, path, create: args.includes("O_CREAT"), cut: args.includes("O_TRUNC") };
    case "write":
    case "writev":
      return yield { op: "write", fd, bytes: textOf(args).subarray(0, result) };
    case "pwrite64":
    case "pwritev":
      return yield {
        op: "write",
        fd,
        bytes: textOf(args).subarray(0, result),
        offset: Number(/(\d+)$/.exec(args)?.[1]),
      };
    case "ftruncate":
      return yield { op: "truncate", fd, size: Number(/(\d+)$/.exec(args)?.[1]) };
    case "rename":
    case "renameat":
    case "renameat2":
      return yield { op: "rename", path, to };
    case "link":
    case "linkat":
      return yield { op: "link", path, to };
    case "unlink":
    case "mkdir":
    case "mkdirat":
    case "rmdir":
      return yield { op: name === "mkdirat" ? "mkdir" : name, path };
    case "unlinkat":
      return yield { op: args.includes("AT_REMOVEDIR") ? "rmdir" : "unlink", path };
    case "close":
      return;
    default:
      throw new Error(`the trace has a call that cannot be replayed: ${name}`);
  }
}

const TEXT = /"((?:\\x[0-9a-f]{2})*)"/g;
const bytesOf = (text: string): Buffer => Buffer.from(text.replaceAll("\\x", ""), "hex");
const pathsOf = (args: string): readonly string[] =>
  [...args.matchAll(TEXT)].map(([, text = ""]) => bytesOf(text).toString());
const textOf = (args: string): Buffer => Buffer.concat([...args.matchAll(TEXT)].map(([, text = ""]) => bytesOf(text)));
