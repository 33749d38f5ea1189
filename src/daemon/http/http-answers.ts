/** What a server answers. */
export interface HttpAnswer {
  readonly status: number;
  readonly contentType: string;
  readonly body: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Answers one request. A rejection is answered with 500 and logged. */
export type Route = (query: URLSearchParams) => HttpAnswer | Promise<HttpAnswer>;

/** Answers by path: the whole of what a server serves. */
export type Routes = ReadonlyMap<string, Route>;

/** Finds the route of a path, or undefined for 404. */
export type FindRoute = (path: string) => Route | undefined;

/** An answer of plain text. */
export function textAnswer(body: string, status = 200): HttpAnswer {
  return { status, contentType: "text/plain; charset=utf-8", body };
}

/** An answer of JSON; `body` is the text itself, so that each endpoint keeps its own layout. */
export function jsonAnswer(body: string, status = 200, headers: Readonly<Record<string, string>> = {}): HttpAnswer {
  return { status, contentType: "application/json", body, headers };
}
