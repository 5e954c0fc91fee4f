/** How long the audit trail keeps what: anybody can be refused, so refusals must not fill the storage for ever. */
import { expect, it } from "vitest";
import { EXPIRY } from "../../core/model/schema.ts";
import { createAuditTrail } from "../../core/records/audit-trail.ts";
import { testClock } from "../support/clock.ts";
import { quietLog } from "../support/quiet.ts";
import { shelf } from "../support/shelf.ts";

it("keeps a refusal for 90 days, and a change for as long as the data", async () => {
  const [storage, clock] = [shelf(), testClock()];
  const trail = createAuditTrail({ storage, clock, log: quietLog() });
  const entry = {
    action: "login",
    target: "eve",
    actor: { sub: "eve", address: "192.0.2.1" },
    keys: ["key_1"],
  } as const;
  await trail.refused(entry, "eve");
  const refusals = (await storage.range("audit:")).map(({ key }) => key);
  expect(refusals).toHaveLength(1);
  const ends = (await storage.range("expiry:")).map(({ key }) => EXPIRY.id(key));
  expect(ends).toEqual([{ at: clock.now() + 90 * 86_400_000, target: refusals[0] }]);
  await storage.commit(trail.lines(entry));
  expect(await storage.range("audit:")).toHaveLength(2);
  expect(await storage.range("expiry:")).toHaveLength(1);
});

it("shows the refusals of others beside those of one who is refused all the time", async () => {
  const [storage, clock] = [shelf(), testClock()];
  const trail = createAuditTrail({ storage, clock, log: quietLog() });
  const refusedOf = (sub: string, target: string) =>
    trail.refused({ action: "access", target, actor: { sub, address: "192.0.2.1" }, keys: "*" }, `${sub} ${target}`);
  const seen = async (sub: string): Promise<number> =>
    (await storage.range("audit:", { limit: 500 })).filter(({ value }) => value.includes(`"by":"${sub}"`)).length;
  for (let n = 0; n < 100; n++) await refusedOf("portal:eve", `key_${n}`);
  await refusedOf("alice", "key_1");
  expect([await seen("portal:eve"), await seen("alice")]).toEqual([20, 1]);
  await clock.advance(60_000);
  await refusedOf("portal:eve", "key_1");
  expect(await seen("portal:eve")).toBe(21);
  await refusedOf("bob", "key_1");
  const said = (await storage.range("audit:", { limit: 500 })).filter(({ value }) => value.includes("not listed"));
  // Once, by the next line that is written.
  expect(said.map(({ value }) => (JSON.parse(value) as { by: string; detail: string }).detail)).toEqual([
    "80 earlier refusals are not listed",
  ]);
});

it("shows the refusals of real accounts, and strangers of other addresses, beside any number of strangers", async () => {
  const [storage, clock] = [shelf(), testClock()];
  const trail = createAuditTrail({ storage, clock, log: quietLog() });
  const refusedOf = (sub: string, address: string, alike: string, keys: "*" | readonly string[] = "*") =>
    trail.refused({ action: "login", target: sub, actor: { sub, address }, keys }, alike);
  const seen = async (text: string): Promise<number> =>
    (await storage.range("audit:", { limit: 500 })).filter(({ value }) => value.includes(text)).length;
  for (let n = 0; n < 100; n++) await refusedOf("unknown account", "192.0.2.1", `name ${n}`);
  expect(await seen("192.0.2.1")).toBe(5);
  for (let n = 0; n < 100; n++) await refusedOf("unknown account", `198.51.100.${n}`, "name");
  expect(await seen("unknown account")).toBe(20);
  for (let n = 0; n < 100; n++) await refusedOf(`portal:lnk_${n}`, "203.0.113.1", `link ${n}`, ["key_1"]);
  expect(await seen("portal:")).toBe(20);
  for (const name of ["alice", "bob", "carol"]) await refusedOf(name, "203.0.113.9", name);
  expect([await seen("alice"), await seen("bob"), await seen("carol")]).toEqual([1, 1, 1]);
});
