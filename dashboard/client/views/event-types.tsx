/** Lists the event types that a key may have: what each means, its example and its schema, and the events of it. */
import { useState } from "preact/hooks";
import { typeName } from "../kit/cut.tsx";
import { table } from "../kit/data-table.tsx";
import { empty, PageFrame, problem, skeleton } from "../kit/elements.tsx";
import { EventTypeText, eventTypes } from "../kit/event-types-input.tsx";
import { useLoad } from "../state/load.ts";
import { to } from "../state/route.ts";
import type { EventTypeHead } from "../shapes.ts";

export const EventTypes = ({ keyId }: { readonly keyId: string }) => {
  const { data, error, again } = useLoad(() => eventTypes(), []);
  return (
    <PageFrame title="Event types" kicker={<code>{keyId}</code>}>
      {problem(error, again) ?? (data === undefined && skeleton())}
      {data?.length === 0 &&
        empty(
          "No event type yet",
          "A type is listed once the config of the relay describes it, or once an event of it is published.",
        )}
      {data !== undefined &&
        data.length > 0 &&
        table(
          "Event types",
          ["Type", "Meaning", "Data"],
          data.map((one) => ({
            key: one.name,
            cells: [
              <a href={to(["k", keyId, "events"], { type: one.name })}>{typeName(one.name)}</a>,
              <span>
                {one.description ?? (one.deprecated === true ? "" : "–")}
                {one.deprecated === true && [" ", <span class="badge is-degraded">deprecated</span>]}
              </span>,
              one.hasExample === true || one.validate !== undefined ? <DataOf one={one} /> : "–",
            ],
          })),
        )}
    </PageFrame>
  );
};

/** The example and the schema are asked for when somebody wants to see them. */
const DataOf = ({ one: { name } }: { readonly one: EventTypeHead }) => {
  const [open, setOpen] = useState(false);
  return open ? (
    <EventTypeText name={name} brief />
  ) : (
    <button type="button" class="small" aria-label={`Show the data of ${name}`} onClick={() => setOpen(true)}>
      Show
    </button>
  );
};
