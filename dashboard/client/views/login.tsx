/** Shows the ways in: the first account, a login, or a pasted token. */
import { useEffect, useState } from "preact/hooks";
import { brand } from "../kit/brand.tsx";
import { Dialog, Form } from "../kit/dialog.tsx";
import { CODE, Field, useTexts } from "../kit/fields.tsx";
import { notice, problem, useAction } from "../kit/elements.tsx";
import { hasAccounts, product } from "../state/page-facts.ts";
import { logIn, paste, setUp } from "../state/session.ts";
import { WaitNotice } from "../kit/choices.tsx";
import type { ComponentChildren } from "preact";

interface FrameProps {
  readonly title: string;
  readonly children: ComponentChildren;
}

/** The title of the tab is that of the view before, which may tell whose it was. */
const Frame = ({ title, children }: FrameProps) => {
  useEffect(() => {
    document.title = `${title} · ${product}`;
  }, [title]);
  return (
    <main class="door">
      {brand()}
      <h1>{title}</h1>
      <WaitNotice />
      {children}
    </main>
  );
};

const send = (busy: boolean, text: string) => (
  <button type="submit" class="main" disabled={busy}>
    {busy ? "One moment…" : text}
  </button>
);

/** The portal when no link opens it. */
export const Closed = ({ note }: { readonly note: string }) => (
  <Frame title="This page is closed">
    <p>{note}</p>
  </Frame>
);

export const Setup = () => {
  const [{ code, username, password }, bind] = useTexts({ code: "", username: "", password: "" });
  const { run, busy, error } = useAction(() => setUp(code.trim(), username, password));
  return (
    <Frame title="Set up this relay">
      <p>There is no account yet. Make the first one: it owns every API key.</p>
      <Form submit={run}>
        <Field
          label="Set-up code"
          {...bind("code", error)}
          focus
          hint={[
            "On the terminal where the relay was started, and in the file ",
            <code>setup-code</code>,
            " of its data folder. It is good for an hour and five tries; after five wrong ones restart the relay.",
          ]}
        />
        <Field label="Username" {...bind("username", error)} autocomplete="username" />
        <Field
          label="Password"
          {...bind("password", error)}
          type="password"
          autocomplete="new-password"
          hint="At least 12 characters. A sentence that only you would write is a good one."
        />
        {problem(error)}
        {send(busy, "Make the account")}
      </Form>
    </Frame>
  );
};

interface DoorProps {
  readonly note?: string | undefined;
}

/** Over what the page showed when the session ended: who logs in again finds it as it was. */
export const LoginAgain = ({ note }: DoorProps) => (
  <Dialog title={hasAccounts ? LOGIN : PASTE} covers>
    {hasAccounts ? <LoginForm note={note} /> : <PasteForm note={note} />}
  </Dialog>
);
const LOGIN = "Log in";
const PASTE = "Use your access token";

export const Login = ({ note }: DoorProps) => (
  <Frame title={LOGIN}>
    <LoginForm note={note} />
  </Frame>
);
export const Paste = ({ note }: DoorProps) => (
  <Frame title={PASTE}>
    <PasteForm note={note} />
  </Frame>
);

const LoginForm = ({ note }: DoorProps) => {
  const [{ username, password, code }, bind] = useTexts({ username: "", password: "", code: "" });
  const [wanted, setWanted] = useState(false);
  const { run, busy, error } = useAction(async () => {
    if ((await logIn(username, password, wanted ? code.trim() : undefined)) === "code") setWanted(true);
  });
  return [
    note !== undefined && notice("info", note),
    <Form submit={run}>
      <Field label="Username" {...bind("username")} autocomplete="username" focus />
      <Field label="Password" {...bind("password")} type="password" autocomplete="current-password" />
      {wanted && (
        <Field
          label="Code of your second factor"
          {...bind("code")}
          focus
          hint="Six digits from your authenticator app, or one of your recovery codes."
          {...CODE}
        />
      )}
      {problem(error)}
      {send(busy, "Log in")}
    </Form>,
  ];
};

const PasteForm = ({ note }: DoorProps) => {
  const [text, setText] = useState("");
  const { run, busy, error } = useAction(() => paste(text));
  return [
    note !== undefined && notice("info", note),
    <p>
      This relay takes tokens of your own issuer, so it has no login of its own. Paste an access token: it stays in the
      memory of this page, and is gone when you reload or close it.
    </p>,
    <Form submit={run}>
      <Field
        label="Access token"
        value={text}
        change={setText}
        type="password"
        focus
        hint="A JWT: three parts with dots between them."
      />
      {problem(error)}
      {send(busy, "Go on")}
    </Form>,
  ];
};
