// The operational events in the OpenAPI document are those that the relay publishes, with the data that it gives them.
import { Ajv2020 } from "ajv/dist/2020.js";
import { describe, expect, it } from "vitest";
import { OPERATIONAL_EVENTS } from "../../core/api/reference/webhooks.ts";
import { OPERATOR_KEY } from "../../core/model/names.ts";
import {
  breakerClosed,
  breakerOpened,
  NOTICE_TYPES,
  pendingHigh,
  secretExpiring,
  subscriptionDisabled,
  subscriptionFailing,
} from "../../core/model/notice.ts";
import { dataFor } from "../../core/notify/operational.ts";
import { replied, testPath } from "../support/path.ts";

const SUB = { id: "sub_1", keyId: "key_1", url: "https://shop.example/hook?token=t" };

describe("an operational event", () => {
  it("is described, whichever it is", () => {
    expect(Object.keys(OPERATIONAL_EVENTS)).toEqual([...NOTICE_TYPES, "relay:delivery.failed"]);
  });

  it("has the data that its description promises, for the key and for the operator", async () => {
    await using test = await testPath({ retry: { attempts: 1 } });
    await test.subscribe(["deposit:*"]);
    const listener = await test.subscribe(["relay:delivery.failed"]);
    test.otherwise = (request) => Promise.resolve(replied(request.subscriptionId === listener ? 200 : 500));
    await test.start();
    await test.publish();
    await test.whenSent(2);
    const { data: failure } = JSON.parse(Buffer.from(test.sent[1]?.body ?? "").toString()) as { data: object };
    const failing = subscriptionFailing(SUB, failure as Record<string, unknown>);
    const ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: true });
    for (const { type, data } of [
      breakerOpened(SUB, 20, 0, 60_000),
      breakerClosed(SUB, 0),
      failing,
      subscriptionDisabled(SUB, "by_hand"),
      secretExpiring(SUB, 0),
      pendingHigh("key_1", 5, 4),
      { type: "relay:delivery.failed", data: failure } as const,
    ]) {
      const schema = OPERATIONAL_EVENTS[type]?.schema as { readonly properties: object };
      const judge = ajv.compile({ ...schema, additionalProperties: false });
      for (const listener of ["key_1", OPERATOR_KEY]) {
        // An undefined field is not sent.
        const sent: unknown = JSON.parse(JSON.stringify(dataFor(listener, "key_1", data)));
        expect(judge(sent), `${type}: ${JSON.stringify(judge.errors)}`).toBe(true);
      }
      expect(JSON.stringify(data)).not.toContain("token=t");
    }
  });
});
