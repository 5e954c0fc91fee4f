// How long Redis remembers a commit depends on no wall clock: a repeat after a lost answer must be known for one.
import { expect, it } from "vitest";
import type { Change } from "../../core/ports/storage.ts";
import type { Calls } from "../../plugins/storage/redis/calls.ts";
import type { Channel } from "../../plugins/storage/redis/channel.ts";
import { Writer } from "../../plugins/storage/redis/writer.ts";

const change: Change = { op: "put", key: "meta:a", value: "x" };

/** The sets in which a node has its commits remembered: the first id of a set decides when all of it is forgotten. */
function node(name: string) {
  const sets: string[] = [];
  const clock = { wallMs: 1_000_000_000, ranMs: 0, now: () => clock.wallMs, monotonic: () => clock.ranMs };
  // Its set follows the two times, the kind, the number of arguments and the id.
  const run: Calls["run"] = async (_, { 5: set }) => {
    sets.push(String(set));
    return [-1, [0, ""]];
  };
  const writer = new Writer({
    calls: { run },
    large: run,
    clock,
    now: () => "",
    node: name,
    flights: 1,
    channel: { epoch: "" } as Channel,
    due: () => {},
  });
  return { clock, sets, commit: () => writer.commit([change]) };
}

it("of another node, whose clock is half a minute behind, share no set with those of this one", async () => {
  const [one, other] = [node("one"), node("other")];
  await one.commit();
  await other.commit();
  expect(one.sets).not.toEqual(other.sets);
});

it("of a node whose clock was set back come into no set that is about to go", async () => {
  const one = node("one");
  await one.commit();
  one.clock.ranMs += 28_000;
  await one.commit();
  expect(new Set(one.sets).size).toBe(2);
});
