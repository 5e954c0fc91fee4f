// What a claim of 64 on PostgreSQL takes beside a million lines that wait: 501 subscriptions, half of the lines are of one whose
// receiver is dead.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import pg from "pg";
import { postgres } from "../config/index.ts";
import { DUE } from "../core/model/schema.ts";
import { postgresServer } from "./queue/postgres-server.ts";
import { context } from "./queue/surroundings.ts";
import { benchRun, round, say, within } from "./throughput/bench-run.ts";
import { percentile } from "./throughput/process.ts";

const { values: options } = parseArgs({
  options: {
    json: { type: "boolean", default: false },
    lines: { type: "string", default: "1000000" },
    claims: { type: "string", default: "200" },
  },
});
const lines = within(options.lines, 1_000, 20_000_000, 1_000_000);
const claims = within(options.claims, 10, 10_000, 200);
const MOST_MS = 10;

async function measure(folder: string) {
  const dir = join(folder, "pg");
  mkdirSync(dir);
  const server = await postgresServer(dir);
  const storage = await postgres({ url: server.url }).setup(context(dir));
  const client = new pg.Client({ connectionString: server.url });
  await client.connect();
  say(`${lines} lines …`);
  // As a commit writes them, in one statement.
  const line = {
    subscriptionId: "SUB",
    keyId: "key_1",
    ordinal: "01k00000000000000000000000",
    dueAt: 0,
    generation: 0,
    cycle: 0,
    attempts: 0,
  };
  const [key, value] = [DUE.key(line), DUE.write(line)];
  await client.query(
    `insert into relay.due (key, sub, at, value)
     select replace(replace($1, 'SUB', q.sub), '01k00000000000000000000000', '01k' || lpad(i::text, 23, '0')), q.sub, i, $2
     from generate_series(1, $3::int) i, lateral (select case when i % 2 = 0 then 'sub_dead' else 'sub_' || i % 1001 / 2 end as sub) q`,
    [key, value, lines],
  );
  await client.query("insert into relay.ready (sub, pos) select distinct sub, 0 from relay.due on conflict do nothing");
  await client.query("analyze relay.due");
  const [{ size } = { size: "" }] = (
    await client.query<{ size: string }>("select pg_size_pretty(pg_total_relation_size('relay.due')) as size")
  ).rows;
  await client.end();
  const taken: number[] = [];
  let got = 0;
  for (let i = 0; i < claims; i++) {
    const began = performance.now();
    const leases = await storage.queue.claim({ limit: 64, perSubscription: 64, busy: new Map() });
    taken.push(performance.now() - began);
    got += leases.length;
    await Promise.all(leases.map((lease) => storage.queue.settle(lease, [{ op: "delete", key: DUE.key(lease) }])));
  }
  const began = performance.now();
  await storage.queue.depth();
  const depthMs = performance.now() - began;
  await storage.dispose();
  return {
    lines,
    size,
    claimed: got,
    p50Ms: round(percentile(taken, 50), 1),
    p99Ms: round(percentile(taken, 99), 1),
    depthMs: round(depthMs),
  };
}

await benchRun({
  longestS: 1_800,
  json: options.json,
  measure,
  print: (result) => console.table([result]),
  met: ({ p50Ms }) => p50Ms <= MOST_MS,
});
