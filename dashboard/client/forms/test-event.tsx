/** Sends a test event to a subscription, and shows its attempt: `relay:ping`, or the example of an event type. */
import { useEffect, useRef, useState } from "preact/hooks";
import { ask, path } from "../state/api.ts";
import { AttemptLine } from "../kit/attempt.tsx";
import { problem, useAction } from "../kit/elements.tsx";
import { EventTypeText, eventTypes } from "../kit/event-types-input.tsx";
import { errorOf, Select } from "../kit/fields.tsx";
import type { Attempt } from "../shapes.ts";
import { may } from "../state/may.ts";

interface TestEventProps {
  readonly keyId: string;
  readonly id: string;
}

const PING = "relay:ping";

export const TestEvent = ({ keyId, id }: TestEventProps) => {
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
  return (
    <section class="card" aria-labelledby="test">
      <h2 id="test">Test event</h2>
      <p>
        Sends <code>{PING}</code>, or the example of an event type, to the URL, now and once, even while it is disabled.
        It counts neither for health nor for statistics.
      </p>
      <Select
        label="Type of the test event"
        value={type}
        options={[PING, ...offered].map((name) => [name, name] as const)}
        change={setType}
        load={load}
        error={errorOf(error, "type")}
      />
      {type !== PING && <EventTypeText name={type} key={type} />}
      <div class="row">
        <button type="button" disabled={busy} onClick={run}>
          {busy ? "Sending…" : "Send a test event"}
        </button>
      </div>
      {problem(error)}
      {attempt !== undefined && (
        <div ref={result} tabIndex={-1} class="timeline" role="status">
          <AttemptLine attempt={attempt} />
        </div>
      )}
    </section>
  );
};
