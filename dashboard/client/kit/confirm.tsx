/** Asks before something that cannot be taken back: it says what will happen, and may want a name typed. */
import { useState } from "preact/hooks";
import { FormDialog, type FormDialogProps } from "./dialog.tsx";
import { useAction } from "./elements.tsx";
import { Field } from "./fields.tsx";

/** Its children say what will happen. It is one of danger unless told otherwise. */
interface ConfirmProps extends Omit<FormDialogProps, "action" | "ready"> {
  /** Must be typed before. */
  readonly name?: string;
  readonly act: (wanted: AbortSignal) => Promise<void>;
}

export const Confirm = ({ children, name, act, ...props }: ConfirmProps) => {
  const [typed, setTyped] = useState("");
  const named = name === undefined || typed.trim() === name;
  const action = useAction(async (wanted) => {
    if (!named) throw new Error(`Type ${name} to confirm.`);
    await act(wanted);
  });
  return (
    <FormDialog no="Keep it" kind="danger" {...props} action={action} ready={named}>
      {children}
      {name !== undefined && <Field label={`Type ${name} to confirm`} value={typed} change={setTyped} focus />}
    </FormDialog>
  );
};
