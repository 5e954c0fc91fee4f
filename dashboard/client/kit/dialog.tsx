/** Builds dialogs on the browser's own, which keep the focus inside and give it back. */
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";
import { WaitNotice } from "./choices.tsx";
import { type Action, isSecondClick, problem } from "./elements.tsx";

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
        {close !== undefined && (
          <button type="button" class="plain" aria-label="Close" onClick={close}>
            ✕
          </button>
        )}
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

export interface FormDialogProps {
  readonly title: string;
  readonly close: () => void;
  readonly wide?: boolean;
  readonly children: ComponentChildren;
  /** What the form does when it is sent. */
  readonly action: Pick<Action<[]>, "run" | "busy" | "error">;
  /** The texts of the buttons: to send it, while it is being sent, and to leave it. */
  readonly yes: string;
  readonly doing?: string;
  readonly no?: string;
  readonly kind?: "main" | "danger";
  /** Whether it may be sent. @default true */
  readonly ready?: boolean;
}

/** Asks for something by a form: below its fields stands what went wrong, and the buttons to leave and to send it. */
export const FormDialog = ({ action: { run, busy, error }, children, yes, ...props }: FormDialogProps) => {
  const { title, close, wide, doing = "One moment…", no = "Cancel", kind = "main", ready = true } = props;
  const buttons = (
    <div class="row end">
      <button type="button" onClick={close}>
        {no}
      </button>
      <button type="submit" class={kind} disabled={busy || !ready}>
        {busy ? doing : yes}
      </button>
    </div>
  );
  return (
    <Dialog title={title} close={close} wide={wide}>
      <Form submit={run}>
        {children}
        {problem(error)}
        {buttons}
      </Form>
    </Dialog>
  );
};
