// A connection to PostgreSQL that is of no use is not left behind.
import { expect, it } from "vitest";
import { Link } from "../../../plugins/storage/postgres/link.ts";
import type { Client, Server } from "../../../plugins/storage/postgres/server.ts";
import { testClock } from "../../support/clock.ts";

it("closes each connection that cannot be made ready, however often it tries", async () => {
  let open = 0;
  const server = {
    open: async () => {
      open++;
      let isOpen = true;
      const end = (): void => {
        if (isOpen) open--;
        isOpen = false;
      };
      return { client: { on: () => undefined } as unknown as Client, drop: end, close: async () => end() };
    },
  };
  const link = new Link(server as unknown as Server, testClock(), async () => {
    throw new Error("it may not listen");
  });
  for (let i = 0; i < 3; i++) await expect(link.connect()).rejects.toThrow("it may not listen");
  expect(open).toBe(0);
});
