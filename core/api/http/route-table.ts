/**
 * The route table: exact paths, one segment per parameter, nothing folded, nothing guessed. A path that ends in `/{*}`
 * takes whatever follows, as it stands, where no other path fits.
 */

/** What a path has: handlers by method. HEAD is served by GET. */
export interface Found<Endpoint> {
  readonly methods: ReadonlyMap<string, Endpoint>;
  readonly params: Readonly<Record<string, string>>;
}

export interface Table<Endpoint> {
  /** @param path as it stands in the request line, without the query; `undefined`: there is no such path */
  find(path: string): Found<Endpoint> | undefined;
}

interface Node<Endpoint> {
  readonly literal: Map<string, Node<Endpoint>>;
  parameter?: Node<Endpoint>;
  methods?: Map<string, Endpoint>;
  names?: readonly string[];
}

const REST = "/{*}";

const NONE: Readonly<Record<string, string>> = Object.freeze({});
const FORBIDDEN = /[/\\\p{Cc}]/u;
/** A path longer than this is of no route. */
const LONGEST = 2_048;

/** @throws Error when two endpoints have the same method and path */
export function createTable<Endpoint extends { readonly method: string; readonly path: string }>(
  endpoints: readonly Endpoint[],
): Table<Endpoint> {
  const root: Node<Endpoint> = { literal: new Map() };
  const whole = new Map<string, Found<Endpoint>>();
  const below = new Map<string, Map<string, Endpoint>>();

  for (const endpoint of endpoints) {
    if (endpoint.path.endsWith(REST)) {
      const prefix = endpoint.path.slice(0, 1 - REST.length);
      add(getOr(below, prefix), endpoint);
      continue;
    }
    let node = root;
    const names: string[] = [];
    for (const segment of endpoint.path.slice(1).split("/")) {
      if (segment.startsWith("{")) {
        names.push(segment.slice(1, -1));
        node = node.parameter ??= { literal: new Map() };
      } else {
        let next = node.literal.get(segment);
        if (next === undefined) node.literal.set(segment, (next = { literal: new Map() }));
        node = next;
      }
    }
    node.methods ??= new Map();
    node.names ??= names;
    add(node.methods, endpoint);
    if (names.length === 0) whole.set(endpoint.path, { methods: node.methods, params: NONE });
  }

  function rest(path: string): Found<Endpoint> | undefined {
    for (const [prefix, methods] of below) if (path.startsWith(prefix)) return { methods, params: NONE };
    return undefined;
  }

  return {
    find(path) {
      const found = whole.get(path);
      if (found !== undefined || path.charCodeAt(0) !== 47 || path.length > LONGEST) return found;
      const values: string[] = [];
      const node = walk(root, path.slice(1).split("/"), 0, values);
      if (node?.methods === undefined) return rest(path);
      const params: Record<string, string> = {};
      for (const [i, name] of (node.names ?? []).entries()) params[name] = values[i] as string;
      return { methods: node.methods, params };
    },
  };
}

function add<E extends { readonly method: string; readonly path: string }>(methods: Map<string, E>, one: E): void {
  if (methods.has(one.method)) throw new Error(`two routes are ${one.method} ${one.path}`);
  methods.set(one.method, one);
}

function getOr<V>(map: Map<string, Map<string, V>>, key: string): Map<string, V> {
  const found = map.get(key) ?? new Map<string, V>();
  map.set(key, found);
  return found;
}

/** A literal segment goes before a parameter; where it leads nowhere, the parameter is tried. */
function walk<E>(node: Node<E>, segments: readonly string[], at: number, values: string[]): Node<E> | undefined {
  if (at === segments.length) return node.methods === undefined ? undefined : node;
  const segment = segments[at] as string;
  const literal = node.literal.get(segment);
  const found = literal && walk(literal, segments, at + 1, values);
  if (found !== undefined || node.parameter === undefined) return found;
  const value = decodeSegment(segment);
  if (value === undefined) return undefined;
  values.push(value);
  const below = walk(node.parameter, segments, at + 1, values);
  if (below === undefined) values.pop();
  return below;
}

/** `undefined` for what is no segment: empty, a dot segment, ill-encoded, or with a slash or a control in it. */
function decodeSegment(segment: string): string | undefined {
  if (segment === "" || segment === "." || segment === "..") return undefined;
  if (!segment.includes("%")) return segment;
  try {
    const value = decodeURIComponent(segment);
    return FORBIDDEN.test(value) || value === "." || value === ".." ? undefined : value;
  } catch {
    return undefined;
  }
}
