/** The form to create or change a subscription: the same fields. */
import { useState } from "preact/hooks";
import { ask, path } from "./api.ts";
import { Dialog, form } from "./dialog.ts";
import { el, part } from "./dom.ts";
import { EventNames } from "./event-types-input.ts";
import { errorOf, Field, milliseconds, numeric, Select } from "./fields.ts";
import { filterText, readFilter } from "./filter-test.ts";
import { type HeaderLine, HeadersInput, headerRow, headersOf } from "./headers-input.ts";
import { notice, problem, showToast, useAction } from "./elements.ts";
import { useLoad } from "./load.ts";
import { orderFields, orderOf, pathText } from "./order.ts";
import { secretKeeper } from "./secret.ts";
import type { Secreted, Subscription } from "./shapes.ts";
import { clashOf, patchOf, type Settings } from "./subscription-changes.ts";

interface FormProps {
  readonly keyId: string;
  /** The subscription to change; absent to create one. */
  readonly one?: Subscription;
  readonly close: () => void;
  readonly saved: () => void;
}

const shown = (value: number | undefined): string => (value === undefined ? "" : String(value));
const originOf = (url: string): string => (URL.canParse(url) ? new URL(url).origin : url);

const loadTransforms = async (signal: AbortSignal): Promise<readonly string[]> =>
  (await ask<readonly { readonly name: string }[]>("GET", "/transforms", { signal })).data.map(({ name }) => name);

export const SubscriptionForm = part(({ keyId, one, close, saved }: FormProps) => {
  const [url, setUrl] = useState(one?.url ?? "https://");
  const [events, setEvents] = useState<readonly string[]>(one?.events ?? []);
  const [filter, setFilter] = useState(filterText(one?.filter));
  const [transform, setTransform] = useState(one?.transform ?? "");
  const { data: known = [] } = useLoad(loadTransforms, []);
  const transforms = [...new Set([...known, transform])].filter((name) => name !== "");
  const [description, setDescription] = useState(one?.description ?? "");
  const [order, setOrder] = useState(one?.ordered === true ? (one.onFailed ?? "skip") : "none");
  const [orderBy, setOrderBy] = useState(pathText(one?.orderBy));
  const [rate, setRate] = useState(shown(one?.rateLimit?.perSecond));
  const [seconds, setSeconds] = useState(shown(one?.timeoutMs === undefined ? undefined : one.timeoutMs / 1_000));
  const [headers, setHeaders] = useState<readonly HeaderLine[]>(
    Object.keys(one?.headers ?? {}).map((name) => headerRow(name, true)),
  );
  const listed = one?.retry !== undefined && "delaysMs" in one.retry ? one.retry.delaysMs : [];
  const backoff = one?.retry !== undefined && "factor" in one.retry ? one.retry : undefined;
  const [attempts, setAttempts] = useState(shown(backoff?.attempts));
  const [first, setFirst] = useState(shown(backoff && backoff.firstDelayMs / 1_000));
  const [factor, setFactor] = useState(shown(backoff?.factor));
  const [most, setMost] = useState(shown(backoff && backoff.maxDelayMs / 1_000));
  const [waits, setWaits] = useState(listed.map((ms) => ms / 1_000).join(", "));
  // Only at first: it must not close when a field is cleared.
  const [tuned] = useState([rate, seconds, attempts, waits].some((text) => text !== ""));
  const moved =
    one !== undefined &&
    originOf(url) !== originOf(one.url) &&
    headers.some(({ stored, value }) => stored && value === "");

  /** @throws Error for a text that is no number, path or filter */
  function settings(): Settings {
    const perSecond = numeric(rate);
    const own = [attempts, first, factor, most, waits].some((text) => text.trim() !== "");
    // What is left empty is filled by the relay.
    const retry = {
      attempts: numeric(attempts),
      firstDelayMs: milliseconds(first),
      factor: numeric(factor),
      maxDelayMs: milliseconds(most),
      delaysMs: waits.trim() === "" ? undefined : waits.split(",").map(milliseconds),
    };
    return {
      url: url.trim(),
      events,
      description: description.trim() || undefined,
      rateLimit: perSecond === undefined ? undefined : { perSecond },
      timeoutMs: milliseconds(seconds),
      retry: own ? retry : undefined,
      headers: headersOf(headers),
      filter: readFilter(filter),
      transform: transform || undefined,
      ...orderOf(order, orderBy),
    };
  }
  const [before] = useState(settings);
  /** As the person knows it: as it was when the form was opened, or as the last refusal told it. */
  const [seen, setSeen] = useState(one);

  const { run, busy, error } = useAction(async (wanted) => {
    const now = settings();
    if (seen === undefined) {
      const show = secretKeeper();
      const { data, meta } = await ask<Secreted>("POST", path("/api-keys/{}/webhooks", [keyId]), { body: now, wanted });
      show({ ...data, warnings: meta.warnings });
      return saved();
    }
    const route = path("/api-keys/{}/webhooks/{}", [keyId, seen.id]);
    // The API has no precondition for an update: what others have changed until now is looked at first.
    const { data: stored } = await ask<Subscription>("GET", route, { wanted });
    const body = patchOf(before, now, stored);
    const clash = clashOf(body, seen, stored);
    if (clash !== undefined) {
      setSeen({ ...seen, ...clash.now });
      throw clash.refusal;
    }
    const changes = Object.keys(body).length > 0;
    if (changes) await ask("PATCH", route, { body, wanted });
    showToast(changes ? "Saved" : "Nothing was changed");
    saved();
  });

  return Dialog({
    title: one === undefined ? "Create a subscription" : "Edit the subscription",
    close,
    wide: true,
    children: form({
      submit: run,
      children: [
        Field({
          label: "URL",
          value: url,
          change: setUrl,
          type: "url",
          inputMode: "url",
          focus: true,
          hint: "HTTPS, and an address that the relay may call.",
          error: errorOf(error, "url"),
        }),
        moved &&
          notice("warn", "At another origin the stored header values are dropped. Enter them again, or remove them."),
        EventNames({ chosen: events, change: setEvents, error: errorOf(error, "events") }),
        Field({
          label: "Filter",
          value: filter,
          change: setFilter,
          optional: true,
          lines: 3,
          hint: [
            "JSON, such as ",
            el.code(null, '{"path": "data.currency", "equals": "EUR"}'),
            ". Empty: every event that the names match.",
          ],
          error: errorOf(error, "filter"),
        }),
        transforms.length > 0 &&
          Select({
            label: "Transform",
            value: transform,
            change: setTransform,
            options: [["", "none: the event as it is"], ...transforms.map((name) => [name, name] as const)],
            hint: "Makes the body of each delivery. The operator of the relay writes them.",
            error: errorOf(error, "transform"),
          }),
        ...orderFields({ order, setOrder, orderBy, setOrderBy, error }),
        Field({
          label: "Description",
          value: description,
          change: setDescription,
          optional: true,
          maxLength: 1_000,
          error: errorOf(error, "description"),
        }),
        HeadersInput({ lines: headers, change: setHeaders, error: errorOf(error, "headers") }),
        el.details(
          { class: "more", open: tuned },
          el.summary(null, "Rate limit, time-out and retries"),
          el.div(
            { class: "grid" },
            Field({
              label: "Deliveries a second, at most",
              value: rate,
              change: setRate,
              inputMode: "decimal",
              optional: true,
              hint: "Each node of the relay applies it by itself. Empty: as fast as you answer.",
              error: errorOf(error, "rateLimit"),
            }),
            Field({
              label: "Time-out in seconds",
              value: seconds,
              change: setSeconds,
              inputMode: "decimal",
              optional: true,
              hint: "1 to 30. Empty: the default.",
              error: errorOf(error, "timeoutMs"),
            }),
            Field({
              label: "Attempts in all",
              value: attempts,
              change: setAttempts,
              inputMode: "numeric",
              optional: true,
              hint: "1 to 5. Empty: the default.",
              error: errorOf(error, "retry.attempts"),
            }),
            Field({
              label: "First wait in seconds",
              value: first,
              change: setFirst,
              inputMode: "decimal",
              optional: true,
              error: errorOf(error, "retry.firstDelayMs"),
            }),
            Field({
              label: "Factor from one wait to the next",
              value: factor,
              change: setFactor,
              inputMode: "decimal",
              optional: true,
              error: errorOf(error, "retry.factor"),
            }),
            Field({
              label: "Longest wait in seconds",
              value: most,
              change: setMost,
              inputMode: "decimal",
              optional: true,
              error: errorOf(error, "retry.maxDelayMs"),
            }),
            Field({
              label: "Or the waits themselves, in seconds",
              value: waits,
              change: setWaits,
              optional: true,
              hint: "1 to 4, such as 5, 300, 1800, 7200: instead of the four fields above.",
              error: errorOf(error, "retry.delaysMs"),
            }),
          ),
        ),
        problem(error),
        el.div(
          { class: "row end" },
          el.button({ type: "button", onClick: close }, "Cancel"),
          el.button(
            { type: "submit", class: "main", disabled: busy },
            busy ? "One moment…" : one === undefined ? "Create" : "Save",
          ),
        ),
      ],
    }),
  });
});
