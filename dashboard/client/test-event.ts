/** Sends a test event to a subscription, and shows its attempt: `relay:ping`, or the example of an event type. */
import { useEffect, useRef, useState } from "preact/hooks";
import { ask, path } from "./api.ts";
import { AttemptLine } from "./attempt.ts";
import { el, part } from "./dom.ts";
import { problem, useAction } from "./elements.ts";
import { EventTypeText, eventTypes } from "./event-types-input.ts";
import { errorOf, Select } from "./fields.ts";
import type { Attempt } from "./shapes.ts";
import { may } from "./may.ts";

interface TestEventProps {
  readonly keyId: string;
  readonly id: string;
}

const PING = "relay:ping";

export const TestEvent = part(({ keyId, id }: TestEventProps) => {
  const [attempt, setAttempt] = useState<Attempt | undefined>(undefined);
  const [type, setType] = useState(PING);
  const [offered, setOffered] = useState<readonly string[]>([]);
  const result = useRef<HTMLDivElement>(null);
  const { run, busy, error } = useAction(async () => {
    setAttempt(undefined);
    const options = type === PING ? {} : { body: { type } };
    setAttempt((await ask<Attempt>("POST", path("/api-keys/{}/webhooks/{}/test", [keyId, id]), options)).data);
  });
  useEffect(() => result.current?.focus(), [attempt]);
  if (!may("change")) return null;
  const load = async (): Promise<void> =>
    setOffered((await eventTypes()).filter(({ hasExample }) => hasExample).map(({ name }) => name));
  return el.section(
    { class: "card", "aria-labelledby": "test" },
    el.h2({ id: "test" }, "Test event"),
    el.p(
      null,
      "Sends ",
      el.code(null, PING),
      ", or the example of an event type, to the URL, now and once, even while it is disabled. It counts neither for health nor for statistics.",
    ),
    Select({
      label: "Type of the test event",
      value: type,
      options: [PING, ...offered].map((name) => [name, name] as const),
      change: setType,
      load,
      error: errorOf(error, "type"),
    }),
    type !== PING && EventTypeText({ name: type, key: type }),
    el.div(
      { class: "row" },
      el.button({ type: "button", disabled: busy, onClick: run }, busy ? "Sending…" : "Send a test event"),
    ),
    problem(error),
    attempt !== undefined &&
      el.div({ ref: result, tabIndex: -1, class: "timeline", role: "status" }, AttemptLine({ attempt })),
  );
});
