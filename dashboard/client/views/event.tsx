/** Shows one event: what was published, and its deliveries. */
import { useState } from "preact/hooks";
import { ask, path, type ApiAnswer } from "../state/api.ts";
import { DeliveryCard } from "./delivery.tsx";
import { Form } from "../kit/dialog.tsx";
import { FilterVerdict, testFilter } from "../forms/filter-test.tsx";
import { EraseEvent } from "../forms/erase.tsx";
import { Select } from "../kit/fields.tsx";
import { moment } from "../state/format.ts";
import { nameOf, useKnown } from "../state/api-keys.ts";
import { useNames } from "../state/known-names.ts";
import { Payload } from "../kit/payload.tsx";
import { badge, notice, PageFrame, problem, skeleton, showToast, useAction } from "../kit/elements.tsx";
import { useCalm, useLive, useLoad } from "../state/load.ts";
import { rawData } from "./sent.tsx";
import type { Delivery, EventDetail, FilterTested } from "../shapes.ts";
import { pager } from "../kit/data-table.tsx";
import { trail } from "../kit/trail.tsx";
import { may } from "../state/may.ts";

interface EventProps {
  readonly keyId: string;
  readonly id: string;
}

export const EventView = ({ keyId, id }: EventProps) => {
  // The page of deliveries that is shown: an event may have thousands.
  const [cursor, turn] = useState<string | undefined>(undefined);
  const { data, error, again } = useLoad(
    (signal) => ask<EventDetail>("GET", path("/api-keys/{}/events/{}", [keyId, id], { cursor }), { signal }),
    [keyId, id, cursor],
  );
  const soon = useCalm(again, 700);
  useLive((message) => {
    if (message.event === "again" || (message.event === "attempt" && message.data.eventId === id)) soon();
  });
  // It can be sent to any of them, also where nobody wanted it.
  const offers = data !== undefined && may("change");
  const listed = data?.data.deliveries ?? [];
  const given = new Map(listed.map((one) => [one.subscriptionId, one.subscriptionName]));
  useNames(keyId, [...given.keys()], offers, given);
  if (data === undefined)
    return (
      <PageFrame title="Event" kicker={trail(keyId, "events", "Events", id)}>
        {problem(error, again)}
        {error === undefined && skeleton()}
      </PageFrame>
    );
  return <Shown keyId={keyId} answer={data} again={again} error={error} cursor={cursor} turn={turn} />;
};

const Shown = ({
  keyId,
  answer,
  again,
  error,
  cursor,
  turn,
}: {
  readonly keyId: string;
  readonly answer: ApiAnswer<EventDetail>;
  readonly again: () => void;
  readonly error: unknown;
  /** Of the page of its deliveries. */
  readonly cursor: string | undefined;
  readonly turn: (cursor: string | undefined) => void;
}) => {
  const event = answer.data;
  const next = answer.meta.nextCursor;
  const paged = (cursor ?? next) !== undefined;
  const { id, type, status, createdAt, acceptedAt, deliveries } = event;
  const data = rawData(answer.text);
  const [erasing, setErasing] = useState(false);
  const replay = useAction(async () => {
    const { data: moved } = await ask<{ readonly deliveries: number }>(
      "POST",
      path("/api-keys/{}/events/{}/replay", [keyId, id]),
    );
    showToast(moved.deliveries === 1 ? "One delivery is replayed" : `${moved.deliveries} deliveries are replayed`);
    again();
  });
  const failed = deliveries.filter((one) => one.status === "failed").length;
  return (
    <PageFrame
      title={type}
      kicker={trail(keyId, "events", "Events", id)}
      actions={[
        may("erase") && (
          <button type="button" onClick={() => setErasing(true)}>
            Erase…
          </button>
        ),
        may("change") && failed > 0 && event.damaged === undefined && (
          <button type="button" class="main" disabled={replay.busy} onClick={replay.run}>
            {paged
              ? "Replay all failed deliveries"
              : failed === 1
                ? "Replay the failed delivery"
                : `Replay ${failed} failed deliveries`}
          </button>
        ),
      ]}
    >
      {erasing && <EraseEvent keyId={keyId} eventId={id} close={() => setErasing(false)} />}
      {problem(error, again)}
      {problem(replay.error)}
      <div class="card">
        <dl class="facts">
          <div>
            <dt>Status</dt>
            <dd>{badge(status)}</dd>
          </div>
          <div>
            <dt>Created</dt>
            <dd>
              <time dateTime={createdAt}>{moment(createdAt)}</time>
            </dd>
          </div>
          <div>
            <dt>Accepted</dt>
            <dd>
              <time dateTime={acceptedAt}>{moment(acceptedAt)}</time>
            </dd>
          </div>
          <div>
            <dt>Deliveries</dt>
            <dd>{`${deliveries.length}${paged ? " on this page" : ""}`}</dd>
          </div>
        </dl>
      </div>
      {event.damaged === true &&
        notice("bad", <p>The stored record of this event is damaged. It cannot be sent, nor its data shown.</p>)}
      {event.damaged === undefined && <Payload data={data} />}
      {deliveries.length === 0 &&
        event.damaged === undefined &&
        notice("info", <p>No subscription wanted this event when it was accepted.</p>)}
      {troubleFirst(deliveries).map((delivery) => (
        <DeliveryCard key={delivery.id} keyId={keyId} event={event} data={data} delivery={delivery} again={again} />
      ))}
      {pager("deliveries", cursor, next, turn, ["First", "More"])}
      {event.damaged === undefined && <SendTo keyId={keyId} event={event} again={again} />}
    </PageFrame>
  );
};

const TROUBLE = ["failed", "pending"];
/** What somebody looks for comes first. */
const troubleFirst = (all: readonly Delivery[]): readonly Delivery[] => [
  ...TROUBLE.flatMap((status) => all.filter((one) => one.status === status)),
  ...all.filter(({ status }) => !TROUBLE.includes(status)),
];

/**
 * An event can still be sent to a subscription that did not have it, if its names match: so a new one gets old events.
 */
const SendTo = ({
  keyId,
  event,
  again,
}: {
  readonly keyId: string;
  readonly event: EventDetail;
  readonly again: () => void;
}) => {
  const [chosen, choose] = useState("");
  const had = new Set(event.deliveries.map(({ subscriptionId }) => subscriptionId));
  const others = [...useKnown(keyId).values()].filter(({ id, status }) => status === "active" && !had.has(id));
  const [verdict, setVerdict] = useState<{ readonly of: string; readonly tested: FilterTested } | undefined>(undefined);
  const { run, busy, error } = useAction(async (_, what: "send" | "test") => {
    if (what === "test") return setVerdict({ of: chosen, tested: await testFilter(keyId, chosen, event.id) });
    await ask("POST", path("/api-keys/{}/events/{}/replay", [keyId, event.id]), { body: { subscriptionId: chosen } });
    showToast("The event is sent");
    choose("");
    again();
  });
  // Another one may have been chosen while the answer was on its way.
  const tested = verdict?.of === chosen ? verdict.tested : undefined;
  if (others.length === 0 || !may("change")) return null;
  return (
    <section class="card" aria-labelledby="send-to">
      <h2 id="send-to">Send it to another subscription</h2>
      <Form submit={() => run(undefined, "send")}>
        <Select
          label="Subscription"
          value={chosen}
          options={[["", "Choose…"], ...others.map((one) => [one.id, nameOf(one)] as const)]}
          change={(id) => {
            choose(id);
            setVerdict(undefined);
          }}
          hint="One whose event names match: it did not exist, or did not want this event, when it was accepted. A filter does not keep it back now."
        />
        {problem(error)}
        <div class="row">
          <button type="submit" disabled={busy || chosen === ""}>
            Send
          </button>
          <button type="button" disabled={busy || chosen === ""} onClick={(click: Event) => run(click, "test")}>
            Does it match now?
          </button>
        </div>
      </Form>
      {tested !== undefined && <FilterVerdict tested={tested} />}
    </section>
  );
};
