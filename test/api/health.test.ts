// The probes: what anyone may ask, and what they must not learn by it.
import { expect, it } from "vitest";
import { healthRoutes } from "../../core/api/resources/health.ts";
import { testClock } from "../support/clock.ts";

it("readyz names no address of another system", async () => {
  const readiness = () => ({
    "source:amqp": { ready: false, state: "connect ECONNREFUSED 10.0.0.5:5672", required: false },
    "source:nats": { ready: true },
  });
  const probe = healthRoutes({ clock: testClock(), readiness }).find(({ path }) => path === "/readyz");
  const reply = await probe?.handle({} as never, undefined as never);
  expect(reply?.status).toBe(200);
  const { data } = JSON.parse(String(reply?.body)) as { data: unknown };
  expect(data).toEqual({
    status: "degraded",
    parts: {
      "source:amqp": { ready: false, state: "connect ECONNREFUSED …", required: false },
      "source:nats": { ready: true },
    },
  });
});
