/** Tests a subscription on its page: its filter and its transform on an event of the key, and its URL by a test event. */
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ask, path } from "../state/api.ts";
import { AttemptLine } from "../kit/attempts.tsx";
import { table } from "../kit/list.tsx";
import { Form } from "../kit/dialog.tsx";
import { Choice, Field, type FormState, Select, useForm } from "../kit/fields.tsx";
import { Button, Card, Copy, notice, problem, Result, showToast, Submit, useAction } from "../kit/elements.tsx";
import { EventTypeText, eventTypes } from "../kit/event-types-input.tsx";
import { layOut } from "../kit/payload.tsx";
import type {
  Attempt,
  Filter,
  FilterTested,
  OfKey,
  OneProps,
  RelayEvent,
  Subscription,
  TransformTested,
} from "../shapes.ts";
import { may } from "../state/token.ts";

const OFFERED = 5;

interface TesterProps extends OfKey {
  readonly form: FormState<"eventId">;
  /** Ends the labels, where two testers stand on one page: `" to transform"` */
  readonly what?: string;
  readonly children?: ComponentChildren;
  /** The texts of its buttons. */
  readonly yes: string;
  readonly doing: string;
  readonly offer: string;
}

/** Asks for an event: by its id, or one of the newest of the key. */
const Tester = ({ keyId, form, what = "", children, yes, doing, offer }: TesterProps) => {
  const [newest, setNewest] = useState<readonly RelayEvent[]>([]);
  const offering = useAction(async () => {
    const route = path("/api-keys/{}/events", [keyId], { limit: String(OFFERED) });
    const { data } = await ask<readonly RelayEvent[]>("GET", route);
    setNewest(data);
    if (data.length === 0) showToast("There is no event yet");
    else form.set({ eventId: data[0]?.id ?? "" });
  });
  return (
    <Form submit={form.run}>
      <Field {...form.of("eventId", `Event id${what}`)} maxLength={128} />
      {newest.length > 0 && (
        <Choice
          {...form.of("eventId", `Newest events${what}`)}
          options={newest.map(({ id, type }) => [id, `${type} …${id.slice(-4)}`] as const)}
        />
      )}
      {children}
      {problem(form.error ?? offering.error)}
      <div class="row">
        <Submit text={yes} doing={doing} class="" busy={form.busy} off={form.texts.eventId.trim() === ""} />
        <Button text={offer} off={offering.busy} act={offering.run} />
      </div>
    </Form>
  );
};

/** Brings the tester of the filter into sight, with the focus on its first field. */
export function toFilterTest(): void {
  const card = document.querySelector("[aria-labelledby=filter-test]");
  card?.scrollIntoView();
  card?.querySelector<HTMLElement>("input, select, textarea")?.focus();
}

export const filterText = (filter: Filter | undefined): string =>
  filter === undefined ? "" : JSON.stringify(filter, null, 2);

/** Returns the filter of a field; `undefined` when it is empty. @throws Error when it is not JSON */
export function readFilter(text: string): Filter | undefined {
  if (text.trim() === "") return undefined;
  try {
    return JSON.parse(text) as Filter;
  } catch {
    throw new Error("The filter is not JSON.");
  }
}

/** @param filter `null` for none; left out: the stored one */
export const testFilter = async (
  keyId: string,
  subscriptionId: string,
  eventId: string,
  filter?: Filter | null,
): Promise<FilterTested> => {
  const route = path("/api-keys/{}/webhooks/{}/filter/test", [keyId, subscriptionId]);
  return (await ask<FilterTested>("POST", route, { body: { eventId, filter } })).data;
};

/** Shows what came of a test, and which conditions decided. */
export const FilterVerdict = ({ tested }: { readonly tested: FilterTested }) => {
  const { matched, typeMatched, filterMatched, type, filter, conditions } = tested;
  const why = !typeMatched
    ? `No event name of the subscription matches ${type}.`
    : filter === null
      ? "Its event names match, and there is no filter."
      : filterMatched
        ? "Its event names and the filter match."
        : "Its event names match, the filter does not.";
  return (
    <Result of={tested}>
      {notice(
        matched ? "good" : "warn",
        <p>
          <strong>{matched ? "Matches. " : "Does not match. "}</strong>
          {why}
        </p>,
      )}
      {conditions.length > 0 &&
        table("Conditions", conditions, ({ at }) => at, {
          Condition: ({ at, condition }) => <code title={at}>{JSON.stringify(condition)}</code>,
          Met: (one) => (one.matched ? "yes" : "no"),
          Found: ({ found }) => <code>{found}</code>,
          Decided: ({ decided }) => (decided ? "yes" : ""),
        })}
    </Result>
  );
};

interface TestProps extends OfKey {
  readonly one: Subscription;
}

/** Tests any event of the key, with the stored filter or a changed one. */
export const FilterTest = ({ keyId, one }: TestProps) => {
  const stored = filterText(one.filter);
  const [tested, setTested] = useState<FilterTested | undefined>(undefined);
  const form = useForm({ eventId: "", filter: stored }, async ({ eventId, filter }) => {
    setTested(undefined);
    setTested(await testFilter(keyId, one.id, eventId.trim(), readFilter(filter) ?? null));
  });
  useEffect(() => form.set({ filter: stored }), [stored]);
  return (
    <Card id="filter-test" title="Test the filter">
      <p>Shows whether an event matches, and which conditions decide. Nothing is sent or changed.</p>
      <Tester keyId={keyId} form={form} yes="Test" doing="Testing…" offer="Offer the newest events">
        <Field
          {...form.of("filter", "Filter to test")}
          lines={4}
          optional
          hint="As it is stored. Change it here to try another one."
        />
      </Tester>
      {tested !== undefined && <FilterVerdict tested={tested} />}
    </Card>
  );
};

const TRANSFORM_TEST = "/api-keys/{}/webhooks/{}/transform/test";

/** Shows the body that the transform makes of any event of the key. */
export const TransformTest = ({ keyId, one }: TestProps) => {
  const [tested, setTested] = useState<TransformTested | undefined>(undefined);
  const form = useForm({ eventId: "" }, async (texts) => {
    setTested(undefined);
    const route = path(TRANSFORM_TEST, [keyId, one.id]);
    setTested((await ask<TransformTested>("POST", route, { body: { eventId: texts.eventId.trim() } })).data);
  });
  const words = {
    what: " to transform",
    yes: "Run the transform",
    doing: "Running…",
    offer: "Offer events to transform",
  };
  return (
    <Card id="transform-test" title="Test the transform">
      <p>Shows the body that it makes of an event. Nothing is sent or changed.</p>
      <Tester keyId={keyId} form={form} {...words} />
      {tested !== undefined && <Result of={tested}>{made(tested)}</Result>}
    </Card>
  );
};

interface PreviewProps extends OneProps {
  readonly transform: string;
}

/** Shows, before it is saved, what a transform makes of the newest event. */
export const TransformPreview = ({ keyId, id, transform }: PreviewProps) => {
  const [tested, setTested] = useState<TransformTested | undefined>(undefined);
  const { run, busy, error } = useAction(async () => {
    const newest = path("/api-keys/{}/events", [keyId], { limit: "1" });
    const [event] = (await ask<readonly RelayEvent[]>("GET", newest)).data;
    if (event === undefined) return showToast("There is no event yet");
    const body = { eventId: event.id, transform };
    setTested((await ask<TransformTested>("POST", path(TRANSFORM_TEST, [keyId, id]), { body })).data);
  });
  return (
    <div class="stack">
      <div class="row">
        <Button text="Show its result on the newest event" class="small" off={busy} act={run} />
      </div>
      {problem(error)}
      {tested !== undefined && <Result of={tested}>{made(tested)}</Result>}
    </div>
  );
};

const made = ({ transform, body, error }: TransformTested): ComponentChildren =>
  body === null
    ? notice(
        "warn",
        <p>
          <strong>No body. </strong>
          {error ?? ""}
        </p>,
      )
    : [
        notice(
          "good",
          <p>
            {transform === null ? "There is no transform: the event itself is sent." : `${transform} makes this body.`}{" "}
            <Copy text={body} what="the body" />
          </p>,
        ),
        <pre tabIndex={0} aria-label="Body">
          {layOut(body)}
        </pre>,
      ];

const PING = "relay:ping";

/** Sends a test event, and shows its attempt: `relay:ping`, or the example of an event type. */
export const TestEvent = ({ keyId, id }: OneProps) => {
  const [attempt, setAttempt] = useState<Attempt | undefined>(undefined);
  const [offered, setOffered] = useState<readonly string[]>([]);
  const form = useForm({ type: PING }, async ({ type }) => {
    setAttempt(undefined);
    const options = type === PING ? {} : { body: { type } };
    setAttempt((await ask<Attempt>("POST", path("/api-keys/{}/webhooks/{}/test", [keyId, id]), options)).data);
  });
  if (!may("change")) return null;
  const { type } = form.texts;
  const load = async (): Promise<void> =>
    setOffered((await eventTypes()).filter(({ hasExample }) => hasExample).map(({ name }) => name));
  return (
    <Card id="test" title="Test event">
      <p>
        Sends <code>{PING}</code>, or the example of an event type, to the URL, now and once, even while it is disabled.
        It counts neither for health nor for statistics.
      </p>
      <Select
        {...form.of("type", "Type of the test event")}
        options={[PING, ...offered].map((name) => [name, name] as const)}
        load={load}
      />
      {type !== PING && <EventTypeText name={type} key={type} />}
      <div class="row">
        <Button text={form.busy ? "Sending…" : "Send a test event"} off={form.busy} act={form.run} />
      </div>
      {problem(form.error)}
      {attempt !== undefined && (
        <Result of={attempt} class="timeline">
          <AttemptLine attempt={attempt} />
        </Result>
      )}
    </Card>
  );
};
