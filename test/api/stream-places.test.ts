// Who gets a live stream when many want one.
import { expect, it } from "vitest";
import { createStreamPlaces } from "../../core/api/resources/live-feed.ts";

const holder = (n: number, key = `key_${n}`) => ({ sub: `portal:${n}`, portal: `lnk_${n}`, keys: [key] });
const operator = (n: number) => ({ sub: `operator ${n}`, keys: "*" as const });

it("holders of portal links leave a hundred places to operators, however many they are", () => {
  const places = createStreamPlaces();
  for (let n = 0; n < 400; n++) places.take(holder(n));
  expect(() => places.take(holder(400))).toThrow("come back later");
  const taken = Array.from({ length: 100 }, (_, n) => places.take(operator(n)));
  expect(() => places.take(operator(100))).toThrow("come back later");
  for (const leave of taken) leave();
  expect(() => places.take(holder(400))).toThrow("come back later");
  places.take(operator(0));
});

it("one caller has twenty, by whichever link or token, and gives each back", () => {
  const places = createStreamPlaces();
  const taken = Array.from({ length: 20 }, () => places.take(holder(1)));
  expect(() => places.take(holder(1))).toThrow("20 streams");
  taken[0]?.();
  places.take(holder(1));
  places.take(holder(2));
});

it("one customer has a hundred, however many links to the portal of their key there are", () => {
  const places = createStreamPlaces();
  const taken = Array.from({ length: 100 }, (_, n) => places.take(holder(n, "key_1")));
  expect(() => places.take(holder(100, "key_1"))).toThrow("100 streams");
  places.take(holder(101, "key_2"));
  // Those who manage the key are not its customers.
  places.take({ ...operator(1), keys: ["key_1"] });
  taken[0]?.();
  places.take(holder(100, "key_1"));
  expect(() => places.take(holder(102, "key_1"))).toThrow("100 streams");
});
