// `relay check --data --repair`: makes rows again that a stopped storage has lost; without it nothing is changed.
import { join } from "node:path";
import { expect, it } from "vitest";
import { DUE } from "../../core/model/schema.ts";
import { sqlite } from "../../plugins/storage/sqlite.ts";
import { besideDisk, testClock } from "../support/clock.ts";
import { CommandStage, refused } from "../support/command-stage.ts";
import { openStorages } from "../support/open-storages.ts";
import { testPath } from "../support/path.ts";

const open = openStorages();

it("relay check --data reports a missing due line until --repair makes it again, and the delivery arrives", async () => {
  const at = new CommandStage("");
  const dir = join(at.folder, "data");
  const clock = testClock();
  const storage = await open(sqlite(), dir, { clock: besideDisk(clock) });
  const test = await testPath({ storage, clock });
  const sub = await test.subscribe();
  const id = await test.publish();
  const [line] = await storage.range(DUE.under({ subscriptionId: sub }));
  await storage.commit([{ op: "delete", key: line?.key ?? "" }]);
  await test[Symbol.asyncDispose]();
  await storage.dispose();

  expect(await at.run("check --repair")).toMatchObject(refused(64, "--repair goes with --data"));
  for (let n = 0; n < 2; n++) expect(await at.run("check --data")).toMatchObject({ code: 65 });
  const { code, stdout, stderr } = await at.run("check --data --repair --json");
  expect({ code, stderr }).toEqual({
    code: 0,
    stderr: expect.stringMatching(/relay: repaired: event:key_1:\S+ has neither/),
  });
  expect(JSON.parse(stdout)).toMatchObject({ ok: true, faults: [], repaired: 1, deliveries: { pending: 1 } });
  const again = await at.json<object>("check --data");
  expect(again).not.toHaveProperty("repaired");

  await using next = await testPath({ storage: await open(sqlite(), dir, { clock: besideDisk(clock) }), clock });
  await next.start();
  await next.whenSent(1);
  expect(next.sent.map(({ headers }) => headers["webhook-id"])).toEqual([id]);
});
