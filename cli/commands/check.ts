/** `relay check`: reads the config and says everything that is wrong with it, and on request with what is around it. */
import { reasonOf } from "../../core/lib/reason.ts";
import type { Plan } from "../../core/ports/plan.ts";
import { bad, exitCode, line, type Finding } from "../check/finding.ts";
import type { CliEnvironment } from "../support/environment.ts";
import { type Command, CONFIG_OPTIONS, type Given, JSON_OPTION, loadFor } from "../support/command.ts";
import { EX_CONFIG, EX_DATAERR, EX_OK, usage } from "../support/exit.ts";
import { fields, json, printable, printTable } from "../support/output.ts";
import { DIGEST_KEY, digests, effective } from "../support/reload.ts";
import { atEnd } from "../support/signals.ts";

const URL_OPTION = { "--url <url>": "also connect to it as a delivery would (with --machine); may be repeated" };

const check: Command = {
  usage: "check",
  about: "check the config, with --machine what is around it, with --data every stored record",
  options: {
    "--machine": "also look at folder, disk, limits, certificates, address, storage and keys",
    ...URL_OPTION,
    "--data": "also read every record, while no relay uses the folder",
    "--repair": "with --data: make rows again that are missing, where other records still say what they were",
    ...CONFIG_OPTIONS,
    ...JSON_OPTION,
  },
  examples: ["relay check --machine --url https://hooks.example.com/orders"],
  run: (given, io) => run(given, io, given.flag("machine") || given.list("url") !== undefined),
};

const doctor: Command = {
  usage: "doctor",
  about: "deprecated: relay check --machine",
  options: { ...URL_OPTION, ...CONFIG_OPTIONS, ...JSON_OPTION },
  run: (given, io) => run(given, io, true),
};

/** @returns 0, or with `machine` 78 when something here is bad, 69 when something outside is */
async function run(given: Given, io: CliEnvironment, machine: boolean): Promise<number> {
  const urls = given.list("url") ?? [];
  const asJson = given.flag("json");
  if (machine && given.flag("data")) throw usage("--data reads the records, --machine looks around: give one of them");
  if (given.flag("repair") && !given.flag("data")) throw usage("--repair goes with --data");
  const { ConfigError } = await import("../../config/problems.ts");
  try {
    const { plan, file } = await loadFor(given, io);
    if (given.flag("data")) return await checkStored(plan, given, io);
    const { configWarnings } = await import("../../config/warnings.ts");
    const warnings = configWarnings(plan, io.env);
    const key = io.env[DIGEST_KEY];
    const shown = { ...effective(plan), ...(key !== undefined && digests(plan, key)) };
    if (!asJson) io.print(summary(plan, file));
    if (!asJson)
      for (const { path, message } of warnings) io.say(`relay: warning: ${printable(`${path}: ${message}`)}`);
    const findings: Finding[] = [];
    if (machine)
      for await (const finding of checkMachine(plan, urls, io)) {
        findings.push(finding);
        // At once, because some take seconds.
        if (!asJson) io.print(line(finding, io));
      }
    const code = exitCode(findings);
    const report = { ok: code === EX_OK, file, problems: [], warnings, plan: shown };
    if (asJson) io.print(json({ ...report, ...(machine && { findings }) }));
    return code;
  } catch (error) {
    if (!(error instanceof ConfigError) || !asJson) throw error;
    const { file, problems } = error;
    const findings = problems.map(({ path, message }) =>
      bad("config", path === "" ? message : `${path}: ${message}`, "correct it"),
    );
    io.print(json({ ok: false, file, problems, ...(machine && { findings }) }));
    return EX_CONFIG;
  }
}

/** Checks one thing after another. A check that fails is a finding too. */
async function* checkMachine(plan: Plan, urls: readonly string[], io: CliEnvironment): AsyncGenerator<Finding> {
  const [machine, { checkStorage }, { checkSources }, { checkReach }] = await Promise.all([
    import("../check/machine.ts"),
    import("../check/storage.ts"),
    import("../check/sources.ts"),
    import("../check/reach.ts"),
  ]);
  const checks: readonly [string, () => Promise<readonly Finding[]>][] = [
    ["folder", () => machine.checkFolder(plan)],
    ["open files", async () => [machine.checkFiles(plan)]],
    ["certificates", () => machine.checkCertificates(plan, io.clock.now())],
    ["storage", () => checkStorage(plan, io)],
    ["sources", () => checkSources(plan, io)],
    ...urls.map((url): [string, () => Promise<Finding[]>] => ["url", async () => [await checkReach(url, plan, io)]]),
  ];
  for (const [name, run] of checks) {
    try {
      yield* await run();
    } catch (error) {
      yield bad(name, `could not be looked at: ${reasonOf(error)}`, "look at it by hand");
    }
  }
}

/** @throws StartError 75 while a relay uses the folder, ExitError 69 when there is none */
async function checkStored(plan: Plan, given: Given, io: CliEnvironment): Promise<number> {
  const [{ openStorage, refuseMissingFolder }, { verifyStorage }] = await Promise.all([
    import("../support/offline.ts"),
    import("../../core/maintenance/verify-storage.ts"),
  ]);
  const { stderr } = io;
  refuseMissingFolder(plan);
  const storage = await openStorage(plan, io);
  await using _ = atEnd(() => storage.dispose());
  const own = [...((await storage.verify?.()) ?? [])];
  const found = await verifyStorage(storage, {
    ...(given.flag("repair") && { repair: storage }),
    repaired: ({ key, message }) => io.say(`relay: repaired: ${printable(`${key} ${message}`)}`),
    progress: (read) => void (stderr.isTTY && stderr.write(`\rrelay: ${read} records read`)),
  });
  if (stderr.isTTY) stderr.write("\n");
  // Files that could not be read were moved there, and are not records any more.
  const { quarantined = 0, unreadable = 0 } = await storage.status();
  if (quarantined !== 0) own.push(`${quarantined} files lie in quarantine: look at them, then take them out`);
  // Items of a driver stay where they are.
  if (unreadable === 1) own.push("1 item cannot be read: the log line above names it");
  else if (unreadable !== 0) own.push(`${unreadable} items cannot be read: the log lines above name them`);
  const faults = [...own.map((message) => ({ key: plan.storage.name, message })), ...found.faults];
  const ok = faults.length === 0;
  if (given.flag("json")) io.print(json({ ok, ...found, faults }));
  else {
    const counted = (counts: object) => Object.entries(counts).filter(([, count]) => count > 0);
    const [records, ends] = [counted(found.records), counted(found.deliveries)];
    io.print(records.length === 0 ? "nothing is stored" : printTable(["shelf", "records"], records));
    if (ends.length > 0) io.print(printTable(["deliveries", "count"], ends));
    for (const { key, message } of faults) io.say(`relay: ${printable(`${key} ${message}`)}`);
    if (found.more > 0) io.say(`relay: and ${found.more} more`);
  }
  return ok ? EX_OK : EX_DATAERR;
}

function summary(plan: Plan, file: string | undefined): string {
  const names = (plugins: readonly { readonly name: string }[]): string => plugins.map(({ name }) => name).join(", ");
  const { server, transports, transforms, jobs } = plan;
  const lines = {
    config: `${file ?? "built in"}: in order`,
    data: plan.dataDir,
    server: `${server.tls ? "https" : "http"}://${server.host}:${server.port}`,
    storage: plan.storage.name,
    sources: names(plan.sources) || "none",
    transports: transports.map(({ name, about }) => (about === undefined ? name : `${name} (${about})`)).join(", "),
    auth: plan.auth.name,
    transforms: Object.keys(transforms).join(", ") || undefined,
    jobs: jobs.map(({ name, schedule }) => `${name} (${schedule})`).join(", ") || "none",
  };
  return fields(Object.entries(lines));
}

export const commands: readonly Command[] = [check, doctor];
