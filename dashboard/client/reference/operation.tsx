/** Shows one operation of the OpenAPI document: what it takes and what it answers. */
import { useState } from "preact/hooks";
import { Button } from "../kit/elements.tsx";
import { table } from "../kit/list.tsx";
import { inline } from "./markdown.tsx";

type Of<Name extends string, T> = { readonly [One in Name]?: T };
interface Schema
  extends
    Of<"$ref" | "description", string>,
    Of<"enum" | "examples" | "required", readonly unknown[]>,
    Of<"const" | "default", unknown>,
    Of<"minimum" | "maximum", number> {
  readonly type?: string | readonly string[];
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
}
export type Schemas = Readonly<Record<string, Schema>>;
type Content = Readonly<Record<string, { readonly schema?: Schema }>>;
type Parameter = Of<"name" | "in" | "description", string> & Of<"required", boolean> & Of<"schema", Schema>;
export interface Operation extends Of<"description", string> {
  readonly operationId: string;
  readonly method: string;
  readonly path: string;
  readonly summary: string;
  readonly tags: readonly [string];
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: { readonly content: Content };
  readonly responses: Readonly<Record<string, { readonly description: string; readonly content?: Content }>>;
}

const nameOf = ({ $ref = "" }: Schema): string => $ref.slice($ref.lastIndexOf("/") + 1);

function typeOf(one: Schema): string {
  if (one.$ref !== undefined) return nameOf(one);
  const values = one.const === undefined ? one.enum : [one.const];
  const choice = values?.map((value) => JSON.stringify(value)) ?? (one.anyOf ?? one.oneOf)?.map(typeOf);
  if (choice !== undefined) return choice.join(" | ");
  return one.type === "array"
    ? `${typeOf(one.items ?? {})}[]`
    : [one.type ?? (one.properties ? "object" : "any")].flat().join(" | ");
}

const meaningOf = ({ description, minimum, maximum, default: preset, examples }: Schema): string =>
  [
    description,
    minimum !== undefined && maximum !== undefined && maximum < 2 ** 52 && `${minimum} to ${maximum}.`,
    preset !== undefined && `Default: \`${JSON.stringify(preset)}\`.`,
    examples !== undefined && `Such as \`${JSON.stringify(examples[0])}\`.`,
  ]
    .filter(Boolean)
    .join(" ");

/** The schema whose properties are shown: of a list its items. */
function objectIn(one: Schema | undefined, all: Schemas): Schema | undefined {
  if (one === undefined || one.properties !== undefined) return one;
  if (one.$ref !== undefined) return objectIn(all[nameOf(one)], all);
  const inner = one.items === undefined ? (one.anyOf ?? one.oneOf ?? []) : [one.items];
  return inner.map((each) => objectIn(each, all)).find((each) => each?.properties !== undefined);
}

interface FieldsProps {
  readonly of: Schema | undefined;
  readonly all: Schemas;
  readonly name: string;
}

/** Rows of names, types and meanings; the fields of an object in it once somebody asks. */
const Fields = ({ of, all, name }: FieldsProps) => {
  const { properties = {}, required = [] } = objectIn(of, all) ?? {};
  return table(name, Object.entries(properties), ([field]) => field, {
    Name: ([field]) => <code>{field}</code>,
    Type: ([field, schema]) => <code>{typeOf(schema) + (required.includes(field) ? "" : "?")}</code>,
    Meaning: ([field, schema]) => (
      <div>
        {inline(`${meaningOf(schema)} `, "api")}
        {objectIn(schema, all)?.properties !== undefined && <Inner of={schema} all={all} name={`${name}.${field}`} />}
      </div>
    ),
  });
};

const Inner = (props: FieldsProps) => {
  const [open, setOpen] = useState(false);
  const label = `Show the fields of ${props.name}`;
  return open ? <Fields {...props} /> : <Button text="Fields" label={label} class="small" act={() => setOpen(true)} />;
};

const schemaOf = (content: Content = {}): Schema | undefined => Object.values(content)[0]?.schema;

export const OperationView = ({ one, all }: { readonly one: Operation; readonly all: Schemas }) => {
  const { method, path, summary, description = "", parameters = [], requestBody, responses } = one;
  const asked = parameters.map(({ name = "", in: where, ...rest }) => {
    const { schema, description: words = schema?.description ?? "", required } = rest;
    return [name, { ...schema, description: `In ${where}${required ? "" : ", optional"}. ${words}` }] as const;
  });
  const names = asked.map(([name]) => name);
  const bodies = [
    ["Parameters", names.length > 0 ? { properties: Object.fromEntries(asked), required: names } : undefined],
    ["Body", schemaOf(requestBody?.content)],
    ...Object.entries(responses).map(([status, { content }]) => [`Answer ${status}`, schemaOf(content)] as const),
  ] as const;
  const shown = bodies.filter(([name, schema]) => schema !== undefined && !/[345]\d\d/.test(name));
  return (
    <div class="stack">
      <h1 tabIndex={-1}>{summary}</h1>
      <pre tabIndex={0}>{`${method} ${path}`}</pre>
      <p>{inline(description, "api")}</p>
      {shown.map(([name, schema]) => [<h2>{name}</h2>, <Fields of={schema} all={all} name={name} />])}
      <h2>Answers</h2>
      {table("Answers", Object.entries(responses), ([status]) => status, {
        Status: ([status]) => <code>{status}</code>,
        Meaning: ([, { description: words }]) => <div>{inline(words, "errors")}</div>,
      })}
    </div>
  );
};
