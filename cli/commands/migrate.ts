/** `relay migrate --to <config>`: copies everything from one storage into another, of whatever kind. */
import { randomBytes } from "node:crypto";
import { join, resolve } from "node:path";
import { loadConfig } from "../../config/load.ts";
import { ConfigError } from "../../config/problems.ts";
import { lostSince, quarantinedIn } from "../../core/maintenance/backup.ts";
import { alignRecords, copyRecords, countRecords } from "../../core/maintenance/migrate.ts";
import { FILLING } from "../../core/model/schema.ts";
import type { Storage } from "../../core/ports/storage.ts";
import { heldKeys, judgeMasterKey, keyFolder, lineUp, makeKeys, MASTER } from "../../core/runtime/offline.ts";
import type { Plan } from "../../core/ports/plan.ts";
import type { CliEnvironment } from "../support/environment.ts";
import { type Command, CONFIG_OPTIONS, JSON_OPTION, loadFor } from "../support/command.ts";
import { EX_CONFIG, EX_DATAERR, EX_TEMPFAIL, ExitError, usage } from "../support/exit.ts";
import { json } from "../support/output.ts";
import { progressBar } from "../support/progress.ts";
import { openSource, openStorage } from "../support/offline.ts";
import { atEnd } from "../support/signals.ts";
import { beginFilling } from "./backup.ts";

/** The copy is compared with its source and corrected this many times at most, until both are the same. */
const ROUNDS = 3;
const MASTER_KEY = "RELAY_MASTER_KEY";
/** Settings of the source, which must not apply to the target: both would be the same storage. */
const OF_THE_SOURCE: ReadonlySet<string> = new Set(["RELAY_CONFIG", "RELAY_DATA_DIR", "RELAY_REDIS_URL"]);

const migrate: Command = {
  usage: "migrate",
  about: "copy everything into the storage of another config, while no relay uses either",
  options: { "--to <config>": "config file of the storage that is filled", ...CONFIG_OPTIONS, ...JSON_OPTION },
  examples: ["relay migrate --to relay.redis.config.ts"],
  async run(given, io) {
    const to = given.required("to");
    const { plan: from, file } = await loadFor(given, io);
    const target = await loadTarget(to, from, io);
    const alike = target.dataDir === from.dataDir && target.storage.name === from.storage.name;
    if (alike && file === resolve(io.cwd, to)) throw usage("--to is the config of the source itself");
    const records = await copyAll(from, target, io);
    if (given.flag("json")) io.print(json({ from: from.storage.name, to: target.storage.name, records }));
    else io.print(`copied ${records} records from ${from.storage.name} to ${target.storage.name}`);
    io.say(`relay: ${from.storage.name} is as it was; start with the new config and the same master key`);
  },
};

/** @returns how many records there are */
async function copyAll(from: Plan, to: Plan, io: CliEnvironment): Promise<number> {
  const source = await openSource(from, io);
  await using _source = atEnd(() => source.dispose());
  await refuseOtherKey(source, to, from);
  const target = await openStorage(to, io);
  await using _target = atEnd(() => target.dispose());
  return await copy(source, target, `migration from ${from.storage.name}`, io);
}

/** @throws ConfigError: where the target needs a master key, it says that it must be the source's */
async function loadTarget(to: string, from: Plan, { env, cwd }: CliEnvironment): Promise<Plan> {
  const own = Object.fromEntries(Object.entries(env).filter(([name]) => !OF_THE_SOURCE.has(name)));
  try {
    return (await loadConfig({ flags: { config: to }, env: own, cwd })).plan;
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const problems = error.problems.map(({ path, message }) => ({
      path,
      message: path === MASTER_KEY && own[path] === undefined ? `must be ${ofSource(from)}` : message,
    }));
    throw new ConfigError(problems, error.file, { cause: error });
  }
}

const ofSource = ({ dataDir, keys }: Plan): string =>
  keys.master === undefined
    ? `the master key of the source: ${MASTER_KEY}_FILE=${join(keyFolder(dataDir), MASTER)}`
    : `the master key of the source, as ${MASTER_KEY} gives it there`;

/** @throws ExitError 78 when the target has another master key than the source: it could open no secret */
async function refuseOtherKey(source: Storage, { keys, dataDir }: Plan, from: Plan): Promise<void> {
  const { master, older } = lineUp(await heldKeys(dataDir, keys.master), keys.older);
  if (master === undefined) return;
  const made = makeKeys({ master, signing: randomBytes(32).toString("base64"), publishToken: "-", older });
  const { state } = await judgeMasterKey(source, made);
  if (state === "unlike" || state === "replaced")
    throw new ExitError(EX_CONFIG, `the target has another master key than the source: give it ${ofSource(from)}`);
}

/** @returns how many records there are. @throws ExitError 65 when some cannot be read, 75 when the source changes meanwhile */
async function copy(source: Storage, target: Storage, name: string, io: CliEnvironment): Promise<number> {
  const quarantined = await quarantinedIn(source);
  // The mark holds the progress: `<name>`, or `<name> > <last key>`.
  const was = await target.getItem(FILLING);
  const mine = was?.startsWith(`${name} > `) === true;
  if (!mine) await beginFilling(target, name);
  const after = mine ? was.slice(name.length + 3) : undefined;
  const total = await countRecords(source);
  const copied = progressBar(io, after === undefined ? "copied" : "copied on", total);
  await copyRecords(source, target, {
    mark: { key: FILLING, value: (last) => `${name} > ${last}` },
    after,
    progress: copied.add,
  });
  copied.end();
  for (let round = 1; ; round++) {
    const checked = progressBar(io, "compared", total);
    const wrong = await alignRecords(source, target, { except: FILLING, progress: checked.add });
    checked.end();
    if (wrong === 0) break;
    const changing = "the storage changes while it is copied: stop every relay on it, then run this again";
    if (round === ROUNDS) throw new ExitError(EX_TEMPFAIL, changing);
  }
  const lost = await lostSince(source, quarantined);
  // The mark stays, so that no relay starts on the rest before somebody has decided to go on with it.
  if (lost !== undefined)
    throw new ExitError(
      EX_DATAERR,
      `${lost}; to go on without, remove broken items (files are in quarantine already) and run this again`,
    );
  await target.commit([{ op: "delete", key: FILLING }]);
  return await countRecords(target);
}

export const commands: readonly Command[] = [migrate];
