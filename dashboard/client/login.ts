/** Shows the ways in: the first account, a login, or a pasted token. */
import { useEffect, useState } from "preact/hooks";
import { brand } from "./brand.ts";
import { Dialog, form } from "./dialog.ts";
import { el, part } from "./dom.ts";
import { CODE, Field, useTexts } from "./fields.ts";
import { notice, problem, useAction } from "./elements.ts";
import { hasAccounts, product } from "./page-facts.ts";
import { logIn, paste, setUp } from "./session.ts";
import { waitNotice } from "./choices.ts";
import type { ComponentChildren } from "preact";

interface FrameProps {
  readonly title: string;
  readonly children: ComponentChildren;
}

/** The title of the tab is that of the view before, which may tell whose it was. */
const Frame = part(({ title, children }: FrameProps) => {
  useEffect(() => {
    document.title = `${title} · ${product}`;
  }, [title]);
  return el.main({ class: "door" }, brand(), el.h1(null, title), waitNotice({}), children);
});

const send = (busy: boolean, text: string) =>
  el.button({ type: "submit", class: "main", disabled: busy }, busy ? "One moment…" : text);

/** The portal when no link opens it. */
export const Closed = part(({ note }: { readonly note: string }) =>
  Frame({ title: "This page is closed", children: el.p(null, note) }),
);

export const Setup = part(() => {
  const [{ code, username, password }, bind] = useTexts({ code: "", username: "", password: "" });
  const { run, busy, error } = useAction(() => setUp(code.trim(), username, password));
  return Frame({
    title: "Set up this relay",
    children: [
      el.p(null, "There is no account yet. Make the first one: it owns every API key."),
      form({
        submit: run,
        children: [
          Field({
            label: "Set-up code",
            ...bind("code", error),
            focus: true,
            hint: [
              "On the terminal where the relay was started, and in the file ",
              el.code(null, "setup-code"),
              " of its data folder. It is good for an hour and five tries; after five wrong ones restart the relay.",
            ],
          }),
          Field({ label: "Username", ...bind("username", error), autocomplete: "username" }),
          Field({
            label: "Password",
            ...bind("password", error),
            type: "password",
            autocomplete: "new-password",
            hint: "At least 12 characters. A sentence that only you would write is a good one.",
          }),
          problem(error),
          send(busy, "Make the account"),
        ],
      }),
    ],
  });
});

interface DoorProps {
  readonly note?: string | undefined;
}

/** Over what the page showed when the session ended: who logs in again finds it as it was. */
export const LoginAgain = part(({ note }: DoorProps) =>
  Dialog({
    title: hasAccounts ? LOGIN : PASTE,
    covers: true,
    children: hasAccounts ? LoginForm({ note }) : PasteForm({ note }),
  }),
);
const LOGIN = "Log in";
const PASTE = "Use your access token";

export const Login = part(({ note }: DoorProps) => Frame({ title: LOGIN, children: LoginForm({ note }) }));
export const Paste = part(({ note }: DoorProps) => Frame({ title: PASTE, children: PasteForm({ note }) }));

const LoginForm = part(({ note }: DoorProps) => {
  const [{ username, password, code }, bind] = useTexts({ username: "", password: "", code: "" });
  const [wanted, setWanted] = useState(false);
  const { run, busy, error } = useAction(async () => {
    if ((await logIn(username, password, wanted ? code.trim() : undefined)) === "code") setWanted(true);
  });
  return [
    note !== undefined && notice("info", note),
    form({
      submit: run,
      children: [
        Field({ label: "Username", ...bind("username"), autocomplete: "username", focus: true }),
        Field({ label: "Password", ...bind("password"), type: "password", autocomplete: "current-password" }),
        wanted &&
          Field({
            label: "Code of your second factor",
            ...bind("code"),
            focus: true,
            hint: "Six digits from your authenticator app, or one of your recovery codes.",
            ...CODE,
          }),
        problem(error),
        send(busy, "Log in"),
      ],
    }),
  ];
});

const PasteForm = part(({ note }: DoorProps) => {
  const [text, setText] = useState("");
  const { run, busy, error } = useAction(() => paste(text));
  return [
    note !== undefined && notice("info", note),
    el.p(
      null,
      "This relay takes tokens of your own issuer, so it has no login of its own. Paste an access token: it stays in the memory of this page, and is gone when you reload or close it.",
    ),
    form({
      submit: run,
      children: [
        Field({
          label: "Access token",
          value: text,
          change: setText,
          type: "password",
          focus: true,
          hint: "A JWT: three parts with dots between them.",
        }),
        problem(error),
        send(busy, "Go on"),
      ],
    }),
  ];
});
