/** What a visitor of the status page asked for. */
export interface StatusQuery {
  /** Lower case, trimmed; "" for no filter. */
  readonly text: string;
  /** Only Services with something to look at. */
  readonly problemsOnly: boolean;
  /** From 1. */
  readonly page: number;
  /** Seconds until the page is asked for again, 0 for never. */
  readonly refresh: number;
  /** All endpoints of one Service, `namespace/name`; "" for the list. */
  readonly service: string;
}

/** Texts longer than any address or name. */
const LONGEST_TEXT = 300;
const REFRESH_PERIODS: readonly number[] = [5, 15, 60];

/** Reads the query of a URL; whatever makes no sense counts as not given. */
export function readStatusQuery(query: URLSearchParams): StatusQuery {
  const page = Number(query.get("page"));
  const refresh = Number(query.get("refresh"));
  return {
    text: (query.get("q") ?? "").slice(0, LONGEST_TEXT).trim().toLowerCase(),
    problemsOnly: query.get("show") === "problems",
    page: Number.isSafeInteger(page) && page > 0 ? page : 1,
    refresh: REFRESH_PERIODS.includes(refresh) ? refresh : 0,
    service: (query.get("service") ?? "").slice(0, LONGEST_TEXT),
  };
}

/** The link to the same page but for some parts; `/?q=cart&page=2`. */
export function statusLink(query: StatusQuery, change: Partial<StatusQuery>): string {
  const { text, problemsOnly, page, refresh, service } = { ...query, ...change };
  const parameters = new URLSearchParams({
    ...(text === "" ? {} : { q: text }),
    ...(problemsOnly ? { show: "problems" } : {}),
    ...(page === 1 ? {} : { page: String(page) }),
    ...(refresh === 0 ? {} : { refresh: String(refresh) }),
    ...(service === "" ? {} : { service }),
  });
  return parameters.size === 0 ? "/" : `/?${parameters}`;
}
