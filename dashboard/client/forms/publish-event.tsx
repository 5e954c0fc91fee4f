/** Publishes an event on a key: any type, with the example of its type offered, and data as JSON, sent as it is typed. */
import { useEffect, useRef, useState } from "preact/hooks";
import { ask, path } from "../state/api.ts";
import { FormDialog } from "../kit/dialog.tsx";
import { EventTypeText, eventTypes } from "../kit/event-types-input.tsx";
import { Field, useTexts } from "../kit/fields.tsx";
import { notice, showToast, useAction } from "../kit/elements.tsx";
import { count } from "../state/format.ts";
import { may } from "../state/may.ts";
import { to } from "../state/route.ts";
import type { EventTypeHead, Published } from "../shapes.ts";

interface PublishProps {
  readonly keyId: string;
  readonly close: () => void;
}

/** The button, for those who may. */
export const PublishButton = ({ keyId }: { readonly keyId: string }) => {
  const [open, setOpen] = useState(false);
  if (!may("publish")) return null;
  return [
    <button type="button" onClick={() => setOpen(true)}>
      Publish event…
    </button>,
    open && <PublishEvent keyId={keyId} close={() => setOpen(false)} />,
  ];
};

/** @throws Error when it is not JSON: the relay could not say where */
function checkJson(text: string): void {
  try {
    JSON.parse(text);
  } catch (error) {
    throw new Error(`The data is not JSON: ${(error as Error).message}`, { cause: error });
  }
}

const PublishEvent = ({ keyId, close }: PublishProps) => {
  const [{ type, data, id }, bind] = useTexts({ type: "", data: "", id: "" });
  const [types, setTypes] = useState<readonly EventTypeHead[]>([]);
  const [accepted, setAccepted] = useState<Published | undefined>(undefined);
  const result = useRef<HTMLDivElement>(null);
  useEffect(() => {
    eventTypes().then(setTypes, (failure: unknown) => showToast((failure as Error).message));
  }, []);
  useEffect(() => result.current?.focus(), [accepted]);
  const action = useAction(async (wanted) => {
    setAccepted(undefined);
    if (data.trim() !== "") checkJson(data);
    const head = JSON.stringify({ type, ...(id.trim() !== "" && { id: id.trim() }) }).slice(0, -1);
    // The data goes out as it is typed: writing a parsed value again would change numbers and spaces.
    const text = `${head}${data.trim() === "" ? "" : `,"data":${data}`}}`;
    setAccepted((await ask<Published>("POST", path("/api-keys/{}/events", [keyId]), { text, wanted })).data);
  });
  const told = types.some(
    ({ name, hasExample, description, validate }) =>
      name === type && (hasExample === true || description !== undefined || validate !== undefined),
  );
  return (
    <FormDialog title="Publish event" close={close} wide action={action} yes="Publish" doing="Publishing…" no="Close">
      <p>
        It is a real event of <code>{keyId}</code>: it is stored, goes to every subscription that wants it, and stands
        in the audit.
      </p>
      <Field
        label="Type"
        {...bind("type", action.error)}
        offers={types.map(({ name }) => name)}
        placeholder="deposit:paid"
        maxLength={128}
        focus
      />
      {told && (
        <EventTypeText
          name={type}
          key={type}
          use={(example) => bind("data").change(JSON.stringify(example, null, 2))}
        />
      )}
      <Field
        label="Data"
        {...bind("data", action.error)}
        lines={8}
        placeholder={'{"amount": "12.50"}'}
        hint="JSON. Receivers get it byte for byte."
      />
      <Field
        label="Event id"
        {...bind("id", action.error)}
        optional
        maxLength={128}
        hint="Your own, unique on this key. The relay makes one when it is left out."
      />
      {accepted !== undefined && (
        <div ref={result} tabIndex={-1} role="status">
          {notice(
            accepted.duplicate ? "info" : "good",
            <p>{verdict(accepted)}</p>,
            <p>
              <a href={to(["k", keyId, "events", accepted.id])} class="id">
                {accepted.id}
              </a>
            </p>,
          )}
        </div>
      )}
    </FormDialog>
  );
};

const verdict = ({ duplicate, deliveries }: Published): string =>
  duplicate
    ? "It was published before with this id: nothing is sent again."
    : deliveries === 0
      ? "Accepted. No subscription wants it."
      : `Accepted. It goes to ${deliveries === 1 ? "one subscription" : `${count(deliveries)} subscriptions`}.`;
