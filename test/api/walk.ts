/** Random requests made from the OpenAPI document, and the judge of what they are answered. */
import { dice, invent, misfits, type Schema } from "./schema.ts";

export interface Described {
  readonly security?: readonly Readonly<Record<string, unknown>>[];
  readonly parameters: readonly { readonly name: string; readonly in: string; readonly schema: Schema }[];
  readonly requestBody?: { readonly content: Record<string, { readonly schema?: Schema }> };
  readonly responses: Record<
    string,
    { readonly description: string; readonly content?: Record<string, { readonly schema?: Schema }> }
  >;
}
export interface Document {
  readonly paths: Record<string, Record<string, Described>>;
  readonly components: { readonly schemas: Record<string, Schema>; readonly securitySchemes: Record<string, Schema> };
}

interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly text: string;
  readonly json: unknown;
}

/** Returns what an answer has that the document does not promise for this operation. */
export function unpromised(document: Document, method: string, path: string, got: Answer): readonly string[] {
  const described = document.paths[path]?.[method.toLowerCase()];
  const response = described?.responses[String(got.status)] ?? described?.responses["default"];
  const head = `${method} ${path} ${got.status}`;
  if (response === undefined) return [`${head} ${got.text.slice(0, 200)}`];
  const { content, description } = response;
  // The upstream decides what passes the gateway.
  const anything = content !== undefined && "*/*" in content;
  const { code } = (got.json ?? {}) as { readonly code?: string };
  if (code !== undefined && !anything && !description.includes(`\`${code}\``)) return [`${head} does not name ${code}`];
  if (content === undefined) return got.text === "" ? [] : [`${head} has a body`];
  const type = String(got.headers["content-type"]).split(";")[0] as string;
  if (anything && content[type] === undefined) return [];
  const schema = content[type]?.schema;
  if (schema === undefined) return [`${head} answers with ${type}`];
  if (got.text === "" || type === "text/event-stream") return [];
  return misfits(schema, got.json, document.components.schemas).map((wrong) => `${head} ${wrong}`);
}

/**
 * Makes requests by random numbers that a seed repeats.
 * @param known ids by the names of parameters; those of answers are added to them
 * @param odd what now and then stands in their place
 */
export function walker(document: Document, seed: number, known: Record<string, string[]>, odd: readonly string[]) {
  const random = dice(seed);
  const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)] as T;
  const made = (schema: Schema): unknown => invent(schema, document.components.schemas, random);
  const text = (schema: Schema): string => {
    const value = made(schema);
    return (typeof value === "string" ? value : JSON.stringify(value)).toWellFormed();
  };
  return {
    random,
    pick,
    text,
    /** Returns target and body of a request. @param asked the chance of each parameter of the query */
    request(path: string, { parameters, requestBody }: Described, asked = 0.3) {
      const target = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
        if (known[name] === undefined || random() > 0.85) return pick(odd);
        return name === "path" ? pick(known[name]) : encodeURIComponent(pick(known[name]));
      });
      const query = parameters.filter((one) => one.in === "query" && random() < asked);
      const pairs = query.map(({ name, schema }) => `${name}=${encodeURIComponent(text(schema))}`);
      const schema =
        requestBody?.content["application/json"]?.schema ??
        (requestBody !== undefined && random() < 0.7 ? {} : undefined);
      const body = schema && JSON.stringify(made(schema));
      return { target: pairs.length > 0 ? `${target}?${pairs.join("&")}` : target, body };
    },
    /** Keeps the newest ids of an answer. */
    remember({ json }: Answer): void {
      for (const one of [(json as { readonly data?: unknown } | undefined)?.data].flat()) {
        const { id } = (one ?? {}) as { readonly id?: unknown };
        const name = /^(sub|evt)_/.exec(String(id))?.[1] === "sub" ? "subscriptionId" : "eventId";
        if (!/^(sub|evt)_/.test(String(id)) || known[name]?.includes(String(id))) continue;
        known[name] = [String(id), ...(known[name] ?? [])].slice(0, 20);
      }
    },
  };
}
