/** Ordered subscriptions in tests: one on a path, what it is sent, and whether all rows agree. */
import { verifyStorage } from "../../core/maintenance/verify-storage.ts";
import type { SubscriptionFields } from "../../core/subscriptions/subscriptions.ts";
import { testPath, type PathOptions, type TestPath } from "./path.ts";

export const ACTOR = { sub: "tester" };

/** A path with one subscription, and its id. */
export async function pathOf(
  fields: Partial<SubscriptionFields>,
  options: PathOptions = {},
): Promise<{ readonly test: TestPath; readonly sub: string }> {
  const test = await testPath(options);
  const given = { url: "https://receiver.example/hook", events: ["deposit:paid"], ...fields };
  const { subscription } = await test.parts.subscriptions.create("key_1", given, ACTOR);
  return { test, sub: subscription.id };
}

/** The same with an ordered one. */
export const orderedPath = (fields: Partial<SubscriptionFields> = {}, options: PathOptions = {}) =>
  pathOf({ ordered: true, ...fields }, options);

export const settle = (test: TestPath): Promise<void> => test.clock.advance(0);

/** The ids of what was sent, in order. */
export const ids = (test: TestPath): string[] => test.sent.map(({ headers }) => headers["webhook-id"] as string);

/** Publishes one after the other. */
export async function publishAll(test: TestPath, data: readonly unknown[]): Promise<string[]> {
  const made: string[] = [];
  for (const one of data) made.push(await test.publish("deposit:paid", { data: one }));
  return made;
}

/** Every row of the storage that does not agree with the others. */
export const faults = async ({ storage }: TestPath): Promise<readonly unknown[]> =>
  (await verifyStorage(storage)).faults;
