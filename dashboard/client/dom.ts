/** Makes elements by functions: `div({ class: "card" }, "text")`. Text is always text and never becomes markup. */
import { h, type ComponentChildren, type JSX, type VNode } from "preact";

type Elements = JSX.IntrinsicElements;
type Make<K extends keyof Elements> = (props?: Elements[K] | null, ...children: ComponentChildren[]) => VNode;

export const el = new Proxy({} as { readonly [K in keyof Elements]: Make<K> }, {
  get:
    (_, tag: string) =>
    (props?: object | null, ...children: ComponentChildren[]) =>
      h(tag, props as null, ...children),
});

/** A name and its value, in a list of them. */
export const line = (name: string, ...value: ComponentChildren[]): VNode =>
  el.div({ key: name }, el.dt(null, name), el.dd(null, ...value));

/** Makes a component callable as a function. Props may be left out where there are none. */
export const part =
  <P extends object>(component: (props: P) => ComponentChildren) =>
  (props: P & { readonly key?: string | number }): VNode =>
    h(component as (props: object) => VNode, props) as VNode;
