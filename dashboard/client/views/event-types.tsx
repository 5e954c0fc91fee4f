/** Lists the event types that a key may have: what each means, its example and its schema, and the events of it. */
import { useState } from "preact/hooks";
import { typeName } from "../kit/cut.tsx";
import { ListView } from "../kit/list.tsx";
import { badge, Button, empty, link, PageFrame } from "../kit/elements.tsx";
import { EventTypeText, eventTypes } from "../kit/event-types-input.tsx";
import { useLoad } from "../state/load.ts";
import { to } from "../state/route.ts";
import type { EventTypeHead, OfKey } from "../shapes.ts";

export const EventTypes = ({ keyId }: OfKey) => (
  <PageFrame title="Event types" kicker={<code>{keyId}</code>}>
    <ListView
      name="Event types"
      load={useLoad(async () => ({ data: await eventTypes(), meta: {} }), [])}
      keyOf={({ name }) => name}
      columns={{
        Type: ({ name }) => link(to(["k", keyId, "events"], { type: name }), typeName(name)),
        Meaning: ({ description, deprecated }) => (
          <span>
            {description ?? (deprecated === true ? "" : "–")}
            {deprecated === true && [" ", badge("degraded", "deprecated")]}
          </span>
        ),
        Data: (one) => (one.hasExample === true || one.validate !== undefined ? <DataOf one={one} /> : "–"),
      }}
      empty={empty(
        "No event type yet",
        "A type is listed once the config of the relay describes it, or once an event of it is published.",
      )}
    />
  </PageFrame>
);

/** The example and the schema are asked for when somebody wants to see them. */
const DataOf = ({ one: { name } }: { readonly one: EventTypeHead }) => {
  const [open, setOpen] = useState(false);
  if (open) return <EventTypeText name={name} brief />;
  return <Button text="Show" class="small" label={`Show the data of ${name}`} act={() => setOpen(true)} />;
};
