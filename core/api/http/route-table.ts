/**
 * Finds the endpoint of a method and a path. Paths match exactly, one segment per parameter. A literal segment goes before
 * a parameter; where it has no such method, the parameter is tried. A path that ends in `/{*}` takes whatever follows, as
 * it stands, where no other path fits.
 */

/** The endpoint with its parameters, or the methods that the path has instead. */
export type Match<Endpoint> =
  | { readonly endpoint: Endpoint; readonly params: Readonly<Record<string, string>>; readonly methods?: undefined }
  | { readonly endpoint?: undefined; readonly methods: readonly string[] };

export interface Table<Endpoint> {
  /**
   * @param path as it stands in the request line, without the query
   * @param method HEAD is served by GET
   * @returns undefined when there is no such path
   */
  find(path: string, method: string): Match<Endpoint> | undefined;
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
  const whole = new Map<string, ReadonlyMap<string, Endpoint>>();
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
    if (names.length === 0) whole.set(endpoint.path, node.methods);
  }

  function rest(path: string): ReadonlyMap<string, Endpoint> | undefined {
    for (const [prefix, methods] of below) if (path.startsWith(prefix)) return methods;
    return undefined;
  }

  return {
    find(path, method) {
      const asked = method === "HEAD" ? "GET" : method;
      const exact = whole.get(path)?.get(asked);
      if (exact !== undefined) return { endpoint: exact, params: NONE };
      if (path.charCodeAt(0) !== 47 || path.length > LONGEST) return undefined;
      const walk: Walk = { segments: path.slice(1).split("/"), method: asked, values: [], others: [] };
      const node = find(root, 0, walk);
      if (node?.methods !== undefined) {
        const params: Record<string, string> = {};
        for (const [i, name] of (node.names ?? []).entries()) params[name] = walk.values[i] as string;
        return { endpoint: node.methods.get(asked) as Endpoint, params };
      }
      if (walk.others.length > 0) return { methods: [...new Set(walk.others)] };
      const open = rest(path);
      const found = open?.get(asked);
      return found === undefined ? open && { methods: [...open.keys()] } : { endpoint: found, params: NONE };
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

interface Walk {
  readonly segments: readonly string[];
  readonly method: string;
  /** Values of the parameters on the way. */
  readonly values: string[];
  /** Methods of the paths that fit but do not have this one. */
  readonly others: string[];
}

/** The first node that fits and has the method: literal segments first. */
function find<E>(node: Node<E>, at: number, walk: Walk): Node<E> | undefined {
  if (at === walk.segments.length) {
    if (node.methods?.has(walk.method)) return node;
    walk.others.push(...(node.methods?.keys() ?? []));
    return undefined;
  }
  const segment = walk.segments[at] as string;
  const literal = node.literal.get(segment);
  const found = literal && find(literal, at + 1, walk);
  if (found !== undefined || node.parameter === undefined) return found;
  const value = decodeSegment(segment);
  if (value === undefined) return undefined;
  walk.values.push(value);
  const below = find(node.parameter, at + 1, walk);
  if (below === undefined) walk.values.pop();
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
