/** Names an event for a tester: a field for its id, and the newest events of the key to choose from. */
import { useState } from "preact/hooks";
import { ask, path } from "../state/api.ts";
import { Choice, errorOf, Field } from "../kit/fields.tsx";
import { showToast, useAction } from "../kit/elements.tsx";
import type { RelayEvent } from "../shapes.ts";

const OFFERED = 5;

/**
 * Returns the chosen event id, and the parts of a form that choose it.
 * @param what ends the labels, where two testers stand on one page: `" to transform"`
 */
export function useEventChoice(keyId: string, what = "") {
  const [eventId, setEventId] = useState("");
  const [newest, setNewest] = useState<readonly RelayEvent[]>([]);
  const { run, busy, error } = useAction(async () => {
    const route = path("/api-keys/{}/events", [keyId], { limit: String(OFFERED) });
    const { data } = await ask<readonly RelayEvent[]>("GET", route);
    setNewest(data);
    if (data.length === 0) showToast("There is no event yet");
    else setEventId(data[0]?.id ?? "");
  });
  return {
    eventId: eventId.trim(),
    /** Why the newest events could not be offered. */
    error,
    /** @param wrong what the tester was answered */
    fields: (wrong: unknown) => [
      <Field
        label={`Event id${what}`}
        value={eventId}
        change={setEventId}
        maxLength={128}
        error={errorOf(wrong, "eventId")}
      />,
      newest.length > 0 && (
        <Choice
          label={`Newest events${what}`}
          value={eventId}
          options={newest.map(({ id, type }) => [id, `${type} …${id.slice(-4)}`] as const)}
          change={setEventId}
        />
      ),
    ],
    offer: (text: string) => (
      <button type="button" disabled={busy} onClick={run}>
        {text}
      </button>
    ),
  };
}
