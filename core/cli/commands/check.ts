/** `relay check`: reads the config and says everything that is wrong with it. */
import type { Plan } from "../../ports/plan.ts";
import type { CliEnvironment } from "../support/environment.ts";
import { type Command, CONFIG_OPTIONS, type Given, JSON_OPTION } from "../support/command.ts";
import { EX_CONFIG, EX_DATAERR, EX_OK } from "../support/exit.ts";
import { fields, json, printable, printTable } from "../support/output.ts";
import { DIGEST_KEY, digests, effective } from "../support/reload.ts";
import { loadFor } from "../support/load-config.ts";

const check: Command = {
  usage: "check",
  about: "check the config, and with --data every stored record",
  options: [
    { flags: "--data", about: "also read every record, while no relay uses the folder" },
    ...CONFIG_OPTIONS,
    JSON_OPTION,
  ],
  async run(given, io) {
    const { ConfigError } = await import("../../../config/problems.ts");
    try {
      const { plan, file } = await loadFor(given, io);
      if (given.flag("data")) return await checkStored(plan, given, io);
      const { configWarnings } = await import("../../../config/warnings.ts");
      const warnings = configWarnings(plan, io.env);
      const key = io.env[DIGEST_KEY];
      const shown = { ...effective(plan), ...(key !== undefined && digests(plan, key)) };
      if (given.flag("json")) io.print(json({ ok: true, file, problems: [], warnings, plan: shown }));
      else io.print(summary(plan, file));
      if (!given.flag("json"))
        for (const { path, message } of warnings) io.say(`relay: warning: ${printable(`${path}: ${message}`)}`);
      return EX_OK;
    } catch (error) {
      if (!(error instanceof ConfigError) || !given.flag("json")) throw error;
      io.print(json({ ok: false, file: error.file, problems: error.problems }));
      return EX_CONFIG;
    }
  },
};

/** @throws StartError 75 while a relay uses the folder, ExitError 69 when there is none */
async function checkStored(plan: Plan, given: Given, io: CliEnvironment): Promise<number> {
  const [{ openStorage }, { refuseMissingFolder }, { verifyStorage }] = await Promise.all([
    import("../support/offline.ts"),
    import("../support/source-storage.ts"),
    import("../../maintenance/verify-storage.ts"),
  ]);
  const { stderr } = io;
  refuseMissingFolder(plan);
  const storage = await openStorage(plan, io);
  try {
    const own = [...((await storage.verify?.()) ?? [])];
    const found = await verifyStorage(storage, {
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
    const report = { ...found, faults };
    const good = report.faults.length === 0;
    if (given.flag("json")) io.print(json({ ok: good, ...report }));
    else {
      const rows = Object.entries(report.records).filter(([, count]) => count > 0);
      io.print(rows.length === 0 ? "nothing is stored" : printTable(["shelf", "records"], rows));
      const ends = Object.entries(report.deliveries).filter(([, count]) => count > 0);
      if (ends.length > 0) io.print(printTable(["deliveries", "count"], ends));
      for (const { key, message } of report.faults) io.say(`relay: ${printable(`${key} ${message}`)}`);
      if (report.more > 0) io.say(`relay: and ${report.more} more`);
    }
    return good ? EX_OK : EX_DATAERR;
  } finally {
    await storage.dispose();
  }
}

function summary(plan: Plan, file: string | undefined): string {
  const names = (plugins: readonly { readonly name: string }[]): string => plugins.map(({ name }) => name).join(", ");
  return fields([
    ["config", `${file ?? "built in"}: in order`],
    ["data", plan.dataDir],
    ["server", `${plan.server.tls ? "https" : "http"}://${plan.server.host}:${plan.server.port}`],
    ["storage", plan.storage.name],
    ["sources", names(plan.sources) || "none"],
    [
      "transports",
      plan.transports.map(({ name, about }) => (about === undefined ? name : `${name} (${about})`)).join(", "),
    ],
    ["auth", plan.auth.name],
    ["transforms", Object.keys(plan.transforms).join(", ") || undefined],
    ["jobs", plan.jobs.map(({ name, schedule }) => `${name} (${schedule})`).join(", ") || "none"],
  ]);
}

export const commands: readonly Command[] = [check];
