// A 404 on one's own key says what is not there, in the same words on each route.
import { afterAll, beforeAll, expect, it } from "vitest";
import { HOOK, serve, type Served } from "./serve.ts";

let api: Served;
let sub: string;
beforeAll(async () => {
  api = await serve();
  const made = await api.ask("POST", "/api-keys/key_1/webhooks", { body: HOOK });
  sub = (made.json.data as unknown as { id: string }).id;
});
afterAll(() => api[Symbol.asyncDispose]());

const EVENT = "There is no such event on this key.";
const SUBSCRIPTION = "There is no such subscription on this key.";
const DELIVERY = "There is no such delivery on this key.";
it.each([
  ["GET", "/events/evt_none", undefined, EVENT],
  ["DELETE", "/events/evt_none", undefined, EVENT],
  ["POST", "/events/evt_none/replay", {}, EVENT],
  ["POST", "/webhooks/{sub}/filter/test", { eventId: "evt_none" }, EVENT],
  ["GET", "/webhooks/sub_none", undefined, SUBSCRIPTION],
  ["PATCH", "/webhooks/sub_none", { description: "x" }, SUBSCRIPTION],
  ["DELETE", "/webhooks/sub_none", undefined, SUBSCRIPTION],
  ["GET", "/webhooks/sub_none/deliveries", undefined, SUBSCRIPTION],
  ["GET", "/webhooks/sub_none/order", undefined, SUBSCRIPTION],
  ["POST", "/webhooks/sub_none/skip", {}, SUBSCRIPTION],
  ["POST", "/webhooks/sub_none/replay", {}, SUBSCRIPTION],
  ["POST", "/webhooks/sub_none/filter/test", { eventId: "evt_none" }, SUBSCRIPTION],
  ["GET", "/events/evt_none/deliveries/sub_none/attempts", undefined, DELIVERY],
  ["POST", "/events/evt_none/deliveries/sub_none/attempt", undefined, DELIVERY],
])("%s %s", async (method, path, body, detail) => {
  const { status, json } = await api.ask(method, `/api-keys/key_1${path.replace("{sub}", sub)}`, {
    ...(body !== undefined && { body }),
  });
  expect([status, json["detail"]]).toEqual([404, detail]);
});
