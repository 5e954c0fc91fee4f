/** Shows the ways in: the first account, a login, a pasted token, and a second factor when the API asks for a fresh one. */
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Dialog, FormDialog, SentForm } from "../kit/dialog.tsx";
import { CODE, Field, useForm } from "../kit/fields.tsx";
import { brand, Button, notice } from "../kit/elements.tsx";
import { hasAccounts, product } from "../state/page-facts.ts";
import { logIn, paste, setUp, stepping, stepUp } from "../state/session.ts";
import { WaitNotice } from "../kit/choices.tsx";
import { useCell } from "../state/cell.ts";
import { go, place } from "../state/route.ts";
import { holderOf, readToken, token } from "../state/token.ts";

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

/** The portal when no link opens it. */
export const Closed = ({ note }: { readonly note: string }) => (
  <Frame title="This page is closed">
    <p>{note}</p>
  </Frame>
);

export const Setup = () => {
  const form = useForm({ code: "", username: "", password: "" }, ({ code, username, password }) =>
    setUp(code.trim(), username, password),
  );
  return (
    <Frame title="Set up this relay">
      <p>There is no account yet. Make the first one: it owns every API key.</p>
      <SentForm form={form} yes="Make the account">
        <Field
          {...form.of("code", "Set-up code")}
          focus
          hint={[
            "On the terminal where the relay was started, and in the file ",
            <code>setup-code</code>,
            " of its data folder. It is good for an hour and five tries; after five wrong ones restart the relay.",
          ]}
        />
        <Field {...form.of("username", "Username")} autocomplete="username" />
        <Field
          {...form.of("password", "Password")}
          type="password"
          autocomplete="new-password"
          hint="At least 12 characters. A sentence that only you would write is a good one."
        />
      </SentForm>
    </Frame>
  );
};

interface DoorProps {
  readonly note?: string | undefined;
}

const TITLE = hasAccounts ? "Log in" : "Use your access token";

export const Login = ({ note }: DoorProps) => (
  <Frame title={TITLE}>
    <Door note={note} />
  </Frame>
);
/** Over what the page showed when the session ended: who logs in again finds it as it was. */
export const LoginAgain = ({ note }: DoorProps) => (
  <Dialog title={TITLE} covers>
    <Door note={note} />
  </Dialog>
);

const Door = ({ note }: DoorProps) => [
  note !== undefined && notice("info", note),
  hasAccounts ? <LoginForm /> : <PasteForm />,
];

const LoginForm = () => {
  const [wanted, setWanted] = useState(false);
  const form = useForm({ username: "", password: "", code: "" }, async ({ username, password, code }) => {
    if ((await logIn(username, password, wanted ? code.trim() : undefined)) === "code") setWanted(true);
  });
  return (
    <SentForm form={form} yes="Log in">
      <Field {...form.of("username", "Username")} autocomplete="username" focus />
      <Field {...form.of("password", "Password")} type="password" autocomplete="current-password" />
      {wanted && (
        <Field
          {...form.of("code", "Code of your second factor")}
          focus
          hint="Six digits from your authenticator app, or one of your recovery codes."
          {...CODE}
        />
      )}
    </SentForm>
  );
};

const PasteForm = () => {
  const form = useForm({ text: "" }, ({ text }) => paste(text));
  return [
    <p>
      This relay takes tokens of your own issuer, so it has no login of its own. Paste an access token: it stays in the
      memory of this page, and is gone when you reload or close it.
    </p>,
    <SentForm form={form} yes="Go on">
      <Field
        {...form.of("text", "Access token")}
        type="password"
        focus
        hint="A JWT: three parts with dots between them."
      />
    </SentForm>,
  ];
};

export const StepUp = () => {
  const done = useCell(stepping);
  return done === undefined ? null : <Ask close={() => done(false)} />;
};

const FIELD = hasAccounts
  ? {
      ...CODE,
      label: "Code of your second factor",
      hint: "Six digits from your authenticator app, or a recovery code. Each code works once.",
    }
  : ({
      label: "A fresh access token",
      type: "password",
      hint: "This relay takes tokens from elsewhere: paste one that was issued with a second factor within the last minutes.",
    } as const);

const Ask = ({ close }: { readonly close: () => void }) => {
  const form = useForm({ code: "" }, async (texts) => {
    const code = texts.code.trim();
    if (hasAccounts) await stepUp(code);
    else {
      const read = readToken(code);
      if (read === undefined) throw new Error("This is not a token.");
      if (holderOf(read) !== holderOf(token.now)) throw new Error("This is the token of somebody else.");
      token.set(read);
    }
    // This one may have been closed, and another request may be asking by now: a fresh token answers that too.
    stepping.now?.(true);
  });
  // Who goes elsewhere has given up what asked for it.
  useEffect(() => place.watch(() => stepping.now?.(false)), []);
  if (hasAccounts && token.now?.amr.includes("mfa") !== true) return <NoFactor close={close} />;
  return (
    <FormDialog title="Confirm that it is you" close={close} form={form} yes="Confirm">
      <Field {...form.of("code", FIELD.label)} focus {...FIELD} />
    </FormDialog>
  );
};

const NoFactor = ({ close }: { readonly close: () => void }) => {
  const enrol = (): void => {
    close();
    go(["account"]);
  };
  return (
    <Dialog title="A second factor is needed" close={close}>
      <p>This can only be done with a second factor, and your account has none yet.</p>
      <div class="row end">
        <Button text="Not now" act={close} />
        <Button text="Set one up" class="main" focus act={enrol} />
      </div>
    </Dialog>
  );
};
