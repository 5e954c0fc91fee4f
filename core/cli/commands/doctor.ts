/** `relay doctor`: checks what a relay needs on this machine, and says what to do where something is missing. */
import { type CliEnvironment, paint } from "../support/environment.ts";
import { type Command, CONFIG_OPTIONS, JSON_OPTION } from "../support/command.ts";
import { bad, exitCode, good, reasonOf, warn, type DoctorFinding } from "../doctor/finding.ts";
import { json, printable } from "../support/output.ts";
import { loadFor } from "../support/load-config.ts";

const doctor: Command = {
  usage: "doctor",
  about: "look at config, folder, disk, clock, names, trust, storage and limits, and say what to do",
  options: [
    { flags: "--url <url>", about: "also connect to it as a delivery would; may be repeated", many: true },
    ...CONFIG_OPTIONS,
    JSON_OPTION,
  ],
  examples: ["relay doctor", "relay doctor --url https://hooks.example.com/orders"],
  async run(given, io) {
    const findings: DoctorFinding[] = [];
    const asJson = given.flag("json");
    // Before anything is printed, so that a mistake of the command line is all that is said.
    given.list("url");
    for await (const finding of examine(given, io)) {
      findings.push(finding);
      if (!asJson) io.print(line(finding, io));
    }
    const code = exitCode(findings);
    if (asJson) io.print(json({ ok: code === 0, findings }));
    return code;
  },
};

/** Yields each finding at once, because some take seconds. A check that throws is a finding too. */
async function* examine(given: Parameters<Command["run"]>[0], io: CliEnvironment): AsyncGenerator<DoctorFinding> {
  const machine = await import("../doctor/machine.ts");
  yield machine.checkNode();
  yield* machine.checkLibraries();
  const { ConfigError } = await import("../../../config/problems.ts");
  const loaded = await loadFor(given, io).catch((error: unknown) => {
    if (error instanceof ConfigError) return error;
    throw error;
  });
  if (loaded instanceof ConfigError) {
    for (const { path, message } of loaded.problems) {
      yield bad(
        "config",
        `${path === "" ? "" : `${path}: `}${message}`,
        `correct it in ${loaded.file ?? "the environment"}`,
      );
    }
    return;
  }
  const { plan, file } = loaded;
  yield good("config", file ?? "built in");
  const { configWarnings } = await import("../../../config/warnings.ts");
  for (const { path, message } of configWarnings(plan, io.env))
    yield warn("config", `${path}: ${message}`, `see that it is meant, in ${file ?? "the environment"}`);
  const [{ checkFolder }, { checkStorage }, outside] = await Promise.all([
    import("../doctor/folder.ts"),
    import("../doctor/store.ts"),
    import("../doctor/outside.ts"),
  ]);
  const checks: readonly [string, () => Promise<readonly DoctorFinding[]>][] = [
    ["folder", () => checkFolder(plan, io)],
    ["open files", async () => [machine.checkFiles(plan)]],
    ["tls trust", () => machine.checkTrust(plan, io.clock.now())],
    ["server.tls", () => machine.checkOwnCertificate(plan, io.clock.now())],
    ["address", async () => [await outside.checkAddress(plan, io)]],
    ["storage", () => checkStorage(plan, io)],
    ["dns", async () => [await outside.checkDns(io)]],
    ...(given.list("url") ?? []).map((url): [string, () => Promise<readonly DoctorFinding[]>] => [
      "url",
      async () => [await outside.checkPublicUrl(url, plan, io)],
    ]),
  ];
  for (const [name, check] of checks) {
    try {
      yield* await check();
    } catch (error) {
      yield bad(name, `could not be looked at (${reasonOf(error)})`, "look at it by hand");
    }
  }
}

const MARKS = { good: ["green", "ok  "], warn: ["yellow", "warn"], bad: ["red", "BAD "] } as const;

function line({ check, state, found, todo }: DoctorFinding, { stdout }: CliEnvironment): string {
  const [style, mark] = MARKS[state];
  const more = todo === undefined ? "" : `\n      ${" ".repeat(12)}→ ${printable(todo)}`;
  return `${paint(stdout, style, mark)}  ${check.padEnd(12)}${printable(found)}${more}`;
}

export const commands: readonly Command[] = [doctor];
