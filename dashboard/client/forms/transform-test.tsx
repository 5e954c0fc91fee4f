/** Tests the transform of a subscription on an event, and shows the body that it makes. */
import { useEffect, useRef, useState } from "preact/hooks";
import { ask, path } from "../state/api.ts";
import { Form } from "../kit/dialog.tsx";
import { Copy, notice, problem, useAction } from "../kit/elements.tsx";
import { useEventChoice } from "./event-choice.tsx";
import { layOut } from "../kit/payload.tsx";
import type { Subscription, TransformTested } from "../shapes.ts";

const Made = ({ tested }: { readonly tested: TransformTested }) => {
  const { transform, body, error } = tested;
  const result = useRef<HTMLDivElement>(null);
  useEffect(() => result.current?.focus(), [tested]);
  const of = transform === null ? "There is no transform: the event itself is sent." : `${transform} makes this body.`;
  return (
    <div ref={result} class="stack" tabIndex={-1} role="status">
      {body === null
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
                {of} <Copy text={body} what="the body" />
              </p>,
            ),
            <pre tabIndex={0} aria-label="Body">
              {layOut(body)}
            </pre>,
          ]}
    </div>
  );
};

/** The tester on the page of a subscription with a transform: any event of the key. */
export const TransformTest = ({ keyId, one }: { readonly keyId: string; readonly one: Subscription }) => {
  const event = useEventChoice(keyId, " to transform");
  const [tested, setTested] = useState<TransformTested | undefined>(undefined);
  const { run, busy, error } = useAction(async () => {
    setTested(undefined);
    const route = path("/api-keys/{}/webhooks/{}/transform/test", [keyId, one.id]);
    setTested((await ask<TransformTested>("POST", route, { body: { eventId: event.eventId } })).data);
  });
  return (
    <section class="card" aria-labelledby="transform-test">
      <h2 id="transform-test">Test the transform</h2>
      <p>Shows the body that it makes of an event. Nothing is sent or changed.</p>
      <Form submit={run}>
        {event.fields(error)}
        {problem(error ?? event.error)}
        <div class="row">
          <button type="submit" disabled={busy || event.eventId === ""}>
            {busy ? "Running…" : "Run the transform"}
          </button>
          {event.offer("Offer events to transform")}
        </div>
      </Form>
      {tested !== undefined && <Made tested={tested} />}
    </section>
  );
};
