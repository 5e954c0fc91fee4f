/** Sends a test event to a subscription, and shows its attempt. */
import { useEffect, useRef, useState } from "preact/hooks";
import { ask, path } from "./api.ts";
import { AttemptLine } from "./attempt.ts";
import { el, part } from "./dom.ts";
import { problem, useAction } from "./elements.ts";
import type { Attempt } from "./shapes.ts";

interface TestEventProps {
  readonly keyId: string;
  readonly id: string;
}

export const TestEvent = part(({ keyId, id }: TestEventProps) => {
  const [attempt, setAttempt] = useState<Attempt | undefined>(undefined);
  const result = useRef<HTMLDivElement>(null);
  const { run, busy, error } = useAction(async () => {
    setAttempt((await ask<Attempt>("POST", path("/api-keys/{}/webhooks/{}/test", [keyId, id]))).data);
  });
  useEffect(() => result.current?.focus(), [attempt]);
  return el.section(
    { class: "card", "aria-labelledby": "test" },
    el.h2({ id: "test" }, "Test event"),
    el.p(
      null,
      "Sends ",
      el.code(null, "relay:ping"),
      " to the URL, now and once, even while it is disabled. It counts neither for health nor for statistics.",
    ),
    el.div(
      { class: "row" },
      el.button({ type: "button", disabled: busy, onClick: run }, busy ? "Sending…" : "Send a test event"),
    ),
    problem(error),
    attempt !== undefined &&
      el.div({ ref: result, tabIndex: -1, class: "timeline", role: "status" }, AttemptLine({ attempt })),
  );
});
