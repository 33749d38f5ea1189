import {
  createServer as createHttpServer,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from "node:http";
import { createServer as createHttpsServer, type Server as HttpsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { RESOURCE_NAMES, type ResourceName } from "../../../src/kube/source.ts";
import { answerFault, answerJson, answerList, answerZipped, readJson, statusObject } from "./answers.ts";
import type { KeyPair } from "./certificates.ts";
import { FaultQueue, type FaultRule, type Verb } from "./faults.ts";
import { OpenWatch } from "./open-watch.ts";
import type { Selectors, StubObject } from "./selectors.ts";
import { StubCluster, TYPES } from "./stub-cluster.ts";

/** A received request. */
export interface RecordedRequest {
  readonly method: string;
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  readonly headers: IncomingMessage["headers"];
  readonly resource: ResourceName | undefined;
  readonly verb: Verb;
}

/** Options of a {@link StubApi}. */
export interface StubApiOptions {
  /** The certificate for TLS. Plain HTTP if absent. */
  readonly certificate?: KeyPair;
  /** An authority (PEM). With TLS, only clients with its certificates are accepted. */
  readonly clientCa?: string;
  /** The port. Default: any free port. */
  readonly port?: number;
  /** The address to listen on. Default: 127.0.0.1. */
  readonly host?: string;
  /** The cluster of a closed server, to continue with. Default: an empty cluster. */
  readonly cluster?: StubCluster;
}

/** An answer of {@link StubApi.other}. */
export interface OtherAnswer {
  readonly status: number;
  readonly body: string;
}

/**
 * A Kubernetes API server on loopback with the parts that a service proxy uses: paged lists, watches,
 * bookmarks and Events. It injects faults and records every request.
 */
export class StubApi {
  readonly requests: RecordedRequest[] = [];
  /** The created Events, with later patches applied. */
  readonly events: StubObject[] = [];
  /** The valid tokens. If there are none, every client is accepted. */
  readonly tokens = new Set<string>();
  readonly cluster: StubCluster;
  /** The minor version of Kubernetes for `/version`. Requests for that path are not recorded. */
  minorVersion = 36;
  /** Whether lists are compressed for clients that accept this, as API servers do from 128 KiB on. */
  compresses = false;
  /**
   * Answers requests for other paths, such as the pod proxy's, before everything else. Returns undefined for
   * paths that it does not answer.
   */
  other: (
    path: string,
    query: Readonly<Record<string, string>>,
  ) => Promise<OtherAnswer | undefined> | OtherAnswer | undefined = () => undefined;
  readonly #faults = new FaultQueue();
  /** The remaining objects of paged lists, by continue token. */
  readonly #snapshots = new Map<string, { readonly version: number; readonly rest: readonly StubObject[] }>();
  readonly #server: Server | HttpsServer;
  #connections = 0;

  private constructor({ certificate, clientCa, cluster }: StubApiOptions) {
    this.cluster = cluster ?? new StubCluster();
    const listener = (request: IncomingMessage, response: ServerResponse) =>
      void this.#serve(request, response);
    const mutual = clientCa === undefined ? {} : { ca: clientCa, requestCert: true };
    this.#server =
      certificate === undefined
        ? createHttpServer(listener)
        : createHttpsServer({ ...certificate, ...mutual }, listener);
    this.#server.on("connection", () => {
      this.#connections += 1;
    });
  }

  /** Starts listening. */
  static async start(options: StubApiOptions = {}): Promise<StubApi> {
    const api = new StubApi(options);
    await new Promise<void>((resolve) =>
      api.#server.listen(options.port ?? 0, options.host ?? "127.0.0.1", resolve),
    );
    return api;
  }

  /** Stops listening and ends all connections. */
  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }

  /** The URL of the server. */
  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** The address for clients in this process. */
  get url(): string {
    return `http${"setSecureContext" in this.#server ? "s" : ""}://127.0.0.1:${this.port}`;
  }

  /** Ends all connections, including idle ones. */
  dropConnections(): void {
    this.#server.closeAllConnections();
  }

  /** The number of connections since the start. */
  get connections(): number {
    return this.#connections;
  }

  /** Uses another certificate for new connections. */
  replaceCertificate(certificate: KeyPair): void {
    (this.#server as HttpsServer).setSecureContext(certificate);
  }

  /** Injects a fault into the next matching requests. */
  addFault(rule: FaultRule): void {
    this.#faults.add(rule);
  }

  /** Removes all faults, so that every request gets the right answer. */
  clearFaults(): void {
    this.#faults.clear();
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", "http://stub");
    const query = Object.fromEntries(url.searchParams);
    if (url.pathname === "/version") {
      answerJson(response, 200, { major: "1", minor: String(this.minorVersion) });
      return;
    }
    const resource = RESOURCE_NAMES.find((name) => TYPES[name].path === url.pathname);
    const verb = verbOf(request.method, query);
    this.requests.push({
      method: request.method ?? "",
      path: url.pathname,
      query,
      headers: request.headers,
      resource,
      verb,
    });
    const other = await this.other(url.pathname, query);
    if (other !== undefined) {
      response.writeHead(other.status, { "content-type": "application/json" }).end(other.body);
      return;
    }
    const body = verb === "write" ? await readJson(request) : undefined;
    const fault = this.#faults.take(resource, verb);
    if (fault !== undefined) {
      answerFault(response, fault);
    } else if (!this.#isAuthenticated(request)) {
      answerJson(response, 401, statusObject(401));
    } else if (verb === "write") {
      this.#write(url.pathname, body as StubObject, response);
    } else if (resource === undefined || this.cluster.absent.has(resource)) {
      answerJson(response, 404, statusObject(404));
    } else if (verb === "watch") {
      this.#watch(resource, query, response);
    } else {
      const isZipped = this.compresses && request.headers["accept-encoding"] === "gzip";
      this.#list(resource, query, response, isZipped);
    }
  }

  #isAuthenticated(request: IncomingMessage): boolean {
    const [scheme, token = ""] = (request.headers.authorization ?? "").split(" ");
    return this.tokens.size === 0 || (scheme === "Bearer" && this.tokens.has(token));
  }

  /** Creates Events, and merges patches into them. */
  #write(path: string, body: StubObject, response: ServerResponse): void {
    const [, name] = /\/events(?:\/([^/]+))?$/.exec(path) ?? ["", "no Event"];
    const at = this.events.findIndex(({ metadata }) => metadata.name === name);
    const known = this.events[at];
    if (name === undefined) {
      this.events.push(body);
      answerJson(response, 201, body);
    } else if (known === undefined) {
      answerJson(response, 404, statusObject(404));
    } else {
      this.events[at] = { ...known, ...body, metadata: { ...known.metadata, ...body.metadata } };
      answerJson(response, 200, this.events[at]);
    }
  }

  #list(
    resource: ResourceName,
    query: Readonly<Record<string, string>>,
    response: ServerResponse,
    isZipped: boolean,
  ): void {
    const begun =
      query.continue === undefined
        ? {
            version: this.cluster.version,
            rest: this.cluster.collection(resource).selected(selectorsOf(query)),
          }
        : this.#snapshots.get(query.continue);
    if (begun === undefined) {
      answerJson(response, 410, statusObject(410));
      return;
    }
    const limit = Number(query.limit ?? 0) || Number.POSITIVE_INFINITY;
    const rest = begun.rest.slice(limit);
    const token = `${resource}-${begun.version}-${rest.length}`;
    if (rest.length > 0) this.#snapshots.set(token, { version: begun.version, rest });
    const metadata = {
      resourceVersion: String(begun.version),
      ...(rest.length > 0 ? { continue: token, remainingItemCount: rest.length } : {}),
    };
    const { apiVersion, kind } = TYPES[resource];
    const frame = { kind: `${kind}List`, apiVersion, metadata };
    const items = begun.rest.slice(0, limit);
    if (isZipped) answerZipped(response, 200, { ...frame, items });
    else answerList(response, frame, items);
  }

  #watch(resource: ResourceName, query: Readonly<Record<string, string>>, response: ServerResponse): void {
    const collection = this.cluster.collection(resource);
    const watch = new OpenWatch(response, selectorsOf(query));
    const version = Number(query.resourceVersion ?? 0);
    if (collection.isCompacted(version)) {
      watch.send({ type: "ERROR", object: statusObject(410) });
      watch.end();
      return;
    }
    collection.subscribe(watch, version);
    response.on("close", () => collection.watches.delete(watch));
  }
}

function verbOf(method: string | undefined, query: Readonly<Record<string, string>>): Verb {
  if (method !== "GET") return "write";
  if (query.watch !== undefined) return "watch";
  return query.continue === undefined ? "list" : "continue";
}

function selectorsOf(query: Readonly<Record<string, string>>): Selectors {
  return { labelSelector: query.labelSelector ?? "", fieldSelector: query.fieldSelector ?? "" };
}
