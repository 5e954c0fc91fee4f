/** Builds forms, and dialogs on the browser's own, which keep the focus inside and give it back. */
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { WaitNotice } from "./choices.tsx";
import { type Action, Button, isSecondClick, problem, Submit, useAction } from "./elements.tsx";
import { Field } from "./fields.tsx";

interface DialogProps {
  readonly title: string;
  readonly children: ComponentChildren;
  /** Called when Escape or the button closes it; without it, nothing closes it. */
  readonly close?: () => void;
  readonly wide?: boolean | undefined;
  /** Hides all that is behind it. */
  readonly covers?: boolean;
}

export const Dialog = ({ title, children, close, wide, covers }: DialogProps) => {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const before = document.activeElement;
    dialog.current?.showModal();
    // A field that takes the focus comes before the button that closes.
    dialog.current?.querySelector<HTMLElement>("[autofocus]")?.focus();
    return () => {
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={dialog}
      class={wide ? "wide" : covers ? "covers" : undefined}
      aria-labelledby={id}
      onCancel={(event: Event) => {
        event.preventDefault();
        close?.();
      }}
      onKeyDown={(event: KeyboardEvent) => {
        if (event.key === "Escape" && close === undefined) event.preventDefault();
      }}
    >
      <header>
        <h2 id={id}>{title}</h2>
        {close !== undefined && <Button text="✕" label="Close" class="plain" act={close} />}
      </header>
      <WaitNotice />
      {children}
    </dialog>
  );
};

interface FormProps {
  readonly submit: () => void;
  readonly children: ComponentChildren;
}

/** A form that the page submits: the browser itself never sends anything. */
export const Form = ({ submit, children }: FormProps) => (
  <form
    noValidate
    onClick={(event: Event) => {
      const button = event.target instanceof Element ? event.target.closest("button[type=submit]") : null;
      if (button !== null && isSecondClick(event)) event.preventDefault();
    }}
    onSubmit={(event: Event) => {
      event.preventDefault();
      submit();
    }}
  >
    {children}
  </form>
);

type Sent = Pick<Action<[]>, "run" | "busy" | "error">;

interface SentFormProps {
  readonly form: Sent;
  /** The text of its button. */
  readonly yes: string;
  readonly children: ComponentChildren;
}

/** A form with one button: below its fields stands what went wrong. */
export const SentForm = ({ form: { run, busy, error }, yes, children }: SentFormProps) => (
  <Form submit={run}>
    {children}
    {problem(error)}
    <Submit text={yes} busy={busy} doing="One moment…" />
  </Form>
);

interface FormDialogProps {
  readonly title: string;
  readonly close: () => void;
  readonly wide?: boolean;
  readonly children: ComponentChildren;
  /** Does what the form is for when it is sent. */
  readonly form: Sent;
  /** The texts of the buttons: to send it, while it is being sent, and to leave it. */
  readonly yes: string;
  readonly doing?: string;
  readonly no?: string;
  readonly kind?: "main" | "danger";
  /** It may be sent. @default true */
  readonly ready?: boolean;
}

/** Asks for something by a form: below its fields stands what went wrong, and the buttons to leave and to send it. */
export const FormDialog = ({ form: { run, busy, error }, children, yes, ...props }: FormDialogProps) => {
  const { title, close, wide, doing = "One moment…", no = "Cancel", kind = "main", ready = true } = props;
  return (
    <Dialog title={title} close={close} wide={wide}>
      <Form submit={run}>
        {children}
        {problem(error)}
        <div class="row end">
          <Button text={no} act={close} />
          <Submit text={yes} busy={busy} doing={doing} off={!ready} class={kind} />
        </div>
      </Form>
    </Dialog>
  );
};

/** Its children say what will happen. It is one of danger unless `kind` says otherwise. */
interface ConfirmProps extends Omit<FormDialogProps, "form" | "ready"> {
  /** Must be typed before. */
  readonly name?: string;
  readonly act: (wanted: AbortSignal) => Promise<void>;
}

/** Asks before something that cannot be taken back: it says what will happen, and may want a name typed. */
export const Confirm = ({ children, name, act, ...props }: ConfirmProps) => {
  const [typed, setTyped] = useState("");
  const named = name === undefined || typed.trim() === name;
  const form = useAction(async (wanted) => {
    if (!named) throw new Error(`Type ${name} to confirm.`);
    await act(wanted);
  });
  return (
    <FormDialog no="Keep it" kind="danger" {...props} form={form} ready={named}>
      {children}
      {name !== undefined && <Field label={`Type ${name} to confirm`} value={typed} change={setTyped} focus />}
    </FormDialog>
  );
};
