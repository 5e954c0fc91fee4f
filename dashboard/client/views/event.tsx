/** Shows one event: what was published, and its deliveries. */
import { useState } from "preact/hooks";
import { type ApiAnswer, ask, path } from "../state/api.ts";
import { DeliveryCard } from "./delivery.tsx";
import { Confirm, Form } from "../kit/dialog.tsx";
import { FilterVerdict, testFilter } from "../forms/testers.tsx";
import { Select, useForm } from "../kit/fields.tsx";
import { moment } from "../state/format.ts";
import { nameOf, useKnown, useNames } from "../state/api-keys.ts";
import { Payload } from "../kit/payload.tsx";
import {
  badge,
  Button,
  Card,
  line,
  notice,
  PageFrame,
  problem,
  showToast,
  skeleton,
  Submit,
  useAction,
} from "../kit/elements.tsx";
import { type LoadState, useAsk } from "../state/load.ts";
import { rawData } from "./sent.tsx";
import type { Delivery, EventDetail, FilterTested, KeyDialogProps, OfKey, OneProps } from "../shapes.ts";
import { pager } from "../kit/list.tsx";
import { trail } from "../kit/cut.tsx";
import { may } from "../state/token.ts";
import { goFromHere } from "../state/route.ts";

export const EventView = ({ keyId, id }: OneProps) => {
  // The page of deliveries that is shown: an event may have thousands.
  const [cursor, turn] = useState<string | undefined>(undefined);
  const load = useAsk<EventDetail>(
    path("/api-keys/{}/events/{}", [keyId, id], { cursor }),
    (message) => (message.event === "again" || (message.event === "attempt" && message.data.eventId === id)) && 700,
  );
  const { data, error, again } = load;
  // It can be sent to any of them, also where nobody wanted it.
  const offers = data !== undefined && may("change");
  const given = new Map((data?.data.deliveries ?? []).map((one) => [one.subscriptionId, one.subscriptionName]));
  useNames(keyId, [...given.keys()], offers, given);
  if (data === undefined)
    return (
      <PageFrame title="Event" kicker={trail(keyId, "events", id)}>
        {problem(error, again)}
        {error === undefined && skeleton()}
      </PageFrame>
    );
  return <Shown keyId={keyId} answer={data} load={load} cursor={cursor} turn={turn} />;
};

interface ShownProps extends OfKey {
  readonly answer: ApiAnswer<EventDetail>;
  readonly load: LoadState<unknown>;
  /** Of the page of its deliveries. */
  readonly cursor: string | undefined;
  readonly turn: (cursor: string | undefined) => void;
}

const Shown = ({ keyId, answer: { data: event, meta, text }, load, cursor, turn }: ShownProps) => {
  const { nextCursor: next } = meta;
  const { error, again } = load;
  const paged = (cursor ?? next) !== undefined;
  const { id, type, status, createdAt, acceptedAt, deliveries, damaged } = event;
  const data = rawData(text);
  const [erasing, setErasing] = useState(false);
  const replay = useAction(async () => {
    const route = path("/api-keys/{}/events/{}/replay", [keyId, id]);
    const { deliveries: moved } = (await ask<{ readonly deliveries: number }>("POST", route)).data;
    showToast(moved === 1 ? "One delivery is replayed" : `${moved} deliveries are replayed`);
    again();
  });
  const failed = deliveries.filter((one) => one.status === "failed").length;
  const some = failed === 1 ? "Replay the failed delivery" : `Replay ${failed} failed deliveries`;
  return (
    <PageFrame
      title={type}
      kicker={trail(keyId, "events", id)}
      actions={[
        may("erase") && <Button text="Erase…" act={() => setErasing(true)} />,
        may("change") && failed > 0 && damaged === undefined && (
          <Button
            text={paged ? "Replay all failed deliveries" : some}
            class="main"
            off={replay.busy}
            act={replay.run}
          />
        ),
      ]}
    >
      {erasing && <EraseEvent keyId={keyId} eventId={id} close={() => setErasing(false)} />}
      {problem(error, again)}
      {problem(replay.error)}
      <div class="card">
        <dl class="facts">
          {line("Status", badge(status))}
          {line("Created", <time dateTime={createdAt}>{moment(createdAt)}</time>)}
          {line("Accepted", <time dateTime={acceptedAt}>{moment(acceptedAt)}</time>)}
          {line("Deliveries", `${deliveries.length}${paged ? " on this page" : ""}`)}
        </dl>
      </div>
      {damaged === true &&
        notice("bad", <p>The stored record of this event is damaged. It cannot be sent, nor its data shown.</p>)}
      {damaged === undefined && <Payload data={data} />}
      {deliveries.length === 0 &&
        damaged === undefined &&
        notice("info", <p>No subscription wanted this event when it was accepted.</p>)}
      {failedFirst(deliveries).map((delivery) => (
        <DeliveryCard key={delivery.id} keyId={keyId} event={event} data={data} delivery={delivery} again={again} />
      ))}
      {pager("deliveries", cursor, next, turn)}
      {damaged === undefined && <SendTo keyId={keyId} event={event} again={again} />}
    </PageFrame>
  );
};

const FIRST = ["failed", "pending"];
/** Puts first what people come for. */
const failedFirst = (all: readonly Delivery[]): readonly Delivery[] => [
  ...FIRST.flatMap((status) => all.filter((one) => one.status === status)),
  ...all.filter(({ status }) => !FIRST.includes(status)),
];

interface SendToProps extends OfKey {
  readonly event: EventDetail;
  readonly again: () => void;
}

/**
 * An event can still be sent to a subscription that did not have it, if its names match: so a new one gets old events.
 */
const SendTo = ({ keyId, event, again }: SendToProps) => {
  const had = new Set(event.deliveries.map(({ subscriptionId }) => subscriptionId));
  const others = [...useKnown(keyId).values()].filter(({ id, status }) => status === "active" && !had.has(id));
  const [verdict, setVerdict] = useState<{ readonly of: object; readonly tested: FilterTested } | undefined>(undefined);
  const form = useForm({ subscriptionId: "" }, async (texts, _, what: "send" | "test") => {
    const { subscriptionId } = texts;
    if (what === "test") return setVerdict({ of: texts, tested: await testFilter(keyId, subscriptionId, event.id) });
    await ask("POST", path("/api-keys/{}/events/{}/replay", [keyId, event.id]), { body: { subscriptionId } });
    showToast("The event is sent");
    form.set({ subscriptionId: "" });
    again();
  });
  if (others.length === 0 || !may("change")) return null;
  const { texts, busy } = form;
  const none = texts.subscriptionId === "";
  return (
    <Card id="send-to" title="Send it to another subscription">
      <Form submit={() => form.run(undefined, "send")}>
        <Select
          {...form.of("subscriptionId", "Subscription")}
          options={[["", "Choose…"], ...others.map((one) => [one.id, nameOf(one)] as const)]}
          hint="One whose event names match: it did not exist, or did not want this event, when it was accepted. A filter does not keep it back now."
        />
        {problem(form.error)}
        <div class="row">
          <Submit text="Send" class="" busy={busy} off={none} />
          <Button text="Does it match now?" off={busy || none} act={(click) => form.run(click, "test")} />
        </div>
      </Form>
      {/* Another one may have been chosen while the answer was on its way. */}
      {verdict?.of === texts && <FilterVerdict tested={verdict.tested} />}
    </Card>
  );
};

const EraseEvent = ({ keyId, eventId, close }: KeyDialogProps & { readonly eventId: string }) => (
  <Confirm
    title="Erase this event?"
    yes="Erase for ever"
    doing="Erasing…"
    close={close}
    act={async (wanted) => {
      const leave = goFromHere();
      await ask("DELETE", path("/api-keys/{}/events/{}", [keyId, eventId]), { wanted });
      showToast("The event is erased");
      leave(["k", keyId, "events"]);
    }}
  >
    {notice(
      "bad",
      <p>
        Its data and its deliveries are deleted, those that are pending too. No attempt begins any more; one that is
        under way ends by itself. This cannot be undone.
      </p>,
    )}
    <p>The audit keeps that you erased it, by its id. What receivers have got stays with them.</p>
    <p class="wrap">
      <code>{eventId}</code>
    </p>
  </Confirm>
);
