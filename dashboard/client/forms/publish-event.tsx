/** Publishes an event on a key: any type, with the example of its type offered, and data as JSON, sent as it is typed. */
import { useState } from "preact/hooks";
import { ask, path } from "../state/api.ts";
import { FormDialog } from "../kit/dialog.tsx";
import { EventTypeText, useEventTypes } from "../kit/event-types-input.tsx";
import { Field, useForm } from "../kit/fields.tsx";
import { Button, link, notice, Result } from "../kit/elements.tsx";
import { count } from "../state/format.ts";
import { may } from "../state/token.ts";
import { to } from "../state/route.ts";
import type { KeyDialogProps, OfKey, Published } from "../shapes.ts";

/** Opens the form, for those who may. */
export const PublishButton = ({ keyId }: OfKey) => {
  const [open, setOpen] = useState(false);
  if (!may("publish")) return null;
  return [
    <Button text="Publish event…" act={() => setOpen(true)} />,
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

const PublishEvent = ({ keyId, close }: KeyDialogProps) => {
  const types = useEventTypes();
  const [accepted, setAccepted] = useState<Published | undefined>(undefined);
  const form = useForm({ type: "", data: "", id: "" }, async ({ type, data, id }, wanted) => {
    setAccepted(undefined);
    if (data.trim() !== "") checkJson(data);
    const head = JSON.stringify({ type, ...(id.trim() !== "" && { id: id.trim() }) }).slice(0, -1);
    // The data goes out as it is typed: writing a parsed value again would change numbers and spaces.
    const text = `${head}${data.trim() === "" ? "" : `,"data":${data}`}}`;
    setAccepted((await ask<Published>("POST", path("/api-keys/{}/events", [keyId]), { text, wanted })).data);
  });
  const { type } = form.texts;
  const isDescribed = types.some(
    ({ name, hasExample, description, validate }) =>
      name === type && (hasExample === true || description !== undefined || validate !== undefined),
  );
  return (
    <FormDialog title="Publish event" close={close} wide form={form} yes="Publish" doing="Publishing…" no="Close">
      <p>
        It is a real event of <code>{keyId}</code>: it is stored, goes to every subscription that wants it, and stands
        in the audit.
      </p>
      <Field
        {...form.of("type", "Type")}
        offers={types.map(({ name }) => name)}
        placeholder="deposit:paid"
        maxLength={128}
        focus
      />
      {isDescribed && (
        <EventTypeText name={type} key={type} use={(example) => form.set({ data: JSON.stringify(example, null, 2) })} />
      )}
      <Field
        {...form.of("data", "Data")}
        lines={8}
        placeholder={'{"amount": "12.50"}'}
        hint="JSON. Receivers get it byte for byte."
      />
      <Field
        {...form.of("id", "Event id")}
        optional
        maxLength={128}
        hint="Your own, unique on this key. The relay makes one when it is left out."
      />
      {accepted !== undefined && (
        <Result of={accepted} class="">
          {notice(
            accepted.duplicate ? "info" : "good",
            <p>{verdict(accepted)}</p>,
            <p>{link(to(["k", keyId, "events", accepted.id]), accepted.id, "id")}</p>,
          )}
        </Result>
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
