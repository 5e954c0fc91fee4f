/** Tests the transform of a subscription on an event, and shows the body that it makes. */
import { useEffect, useRef, useState } from "preact/hooks";
import { ask, path } from "./api.ts";
import { form } from "./dialog.ts";
import { el, part } from "./dom.ts";
import { Copy, notice, problem, useAction } from "./elements.ts";
import { useEventChoice } from "./event-choice.ts";
import { layOut } from "./payload.ts";
import type { Subscription, TransformTested } from "./shapes.ts";

const Made = part(({ tested }: { readonly tested: TransformTested }) => {
  const { transform, body, error } = tested;
  const result = useRef<HTMLDivElement>(null);
  useEffect(() => result.current?.focus(), [tested]);
  const of = transform === null ? "There is no transform: the event itself is sent." : `${transform} makes this body.`;
  return el.div(
    { ref: result, class: "stack", tabIndex: -1, role: "status" },
    body === null
      ? notice("warn", el.p(null, el.strong(null, "No body. "), error ?? ""))
      : [
          notice("good", el.p(null, of, " ", Copy({ text: body, what: "the body" }))),
          el.pre({ tabIndex: 0, "aria-label": "Body" }, layOut(body)),
        ],
  );
});

/** The tester on the page of a subscription with a transform: any event of the key. */
export const TransformTest = part(({ keyId, one }: { readonly keyId: string; readonly one: Subscription }) => {
  const event = useEventChoice(keyId, " to transform");
  const [tested, setTested] = useState<TransformTested | undefined>(undefined);
  const { run, busy, error } = useAction(async () => {
    setTested(undefined);
    const route = path("/api-keys/{}/webhooks/{}/transform/test", [keyId, one.id]);
    setTested((await ask<TransformTested>("POST", route, { body: { eventId: event.eventId } })).data);
  });
  return el.section(
    { class: "card", "aria-labelledby": "transform-test" },
    el.h2({ id: "transform-test" }, "Test the transform"),
    el.p(null, "Shows the body that it makes of an event. Nothing is sent or changed."),
    form({
      submit: run,
      children: [
        event.fields(error),
        problem(error ?? event.error),
        el.div(
          { class: "row" },
          el.button(
            { type: "submit", disabled: busy || event.eventId === "" },
            busy ? "Running…" : "Run the transform",
          ),
          event.offer("Offer events to transform"),
        ),
      ],
    }),
    tested !== undefined && Made({ tested }),
  );
});
