import type { AddressInfo } from "node:net";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { openHttpServer } from "../../src/daemon/http/http-server.ts";
import type { DaemonStatus } from "../../src/daemon/status/daemon-status.ts";
import { statusPage } from "../../src/daemon/status/status-page.ts";
import { CHROMIUM_FLAGS, findChromium } from "./chromium.ts";
import { memoryLogger } from "./memory-logger.ts";

/** A page in a browser, with its errors and requests. */
export interface OpenedPage {
  readonly page: Page;
  readonly origin: string;
  /** Errors and violations of the content security policy, from the console. */
  readonly complaints: string[];
  readonly requests: string[];
}

/** A browser that opens status pages. */
export class StatusBrowser {
  readonly #browser: Browser;
  readonly #closers: (() => Promise<void>)[] = [];

  private constructor(browser: Browser) {
    this.#browser = browser;
  }

  static async start(): Promise<StatusBrowser> {
    const executablePath = findChromium();
    if (executablePath === undefined) throw new Error("no chromium");
    return new StatusBrowser(await chromium.launch({ executablePath, args: [...CHROMIUM_FLAGS] }));
  }

  /** Serves a daemon's status page, and opens it. */
  async open(status: DaemonStatus, path = "/", options: BrowserContextOptions = {}): Promise<OpenedPage> {
    const routes = new Map([["/", (query: URLSearchParams) => statusPage(status, query)]]);
    const { server, close } = await openHttpServer(
      { host: "127.0.0.1", port: 0 },
      (at) => routes.get(at),
      memoryLogger(),
    );
    const context = await this.#browser.newContext({ viewport: { width: 1100, height: 900 }, ...options });
    this.#closers.push(async () => {
      await context.close();
      await close();
    });
    const page = await context.newPage();
    const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const opened: OpenedPage = { page, origin, complaints: [], requests: [] };
    page.on("console", (message) => void opened.complaints.push(message.text()));
    page.on("pageerror", (error) => void opened.complaints.push(error.message));
    page.on("dialog", (dialog) => {
      opened.complaints.push(`dialog: ${dialog.message()}`);
      void dialog.dismiss();
    });
    page.on("request", (request) => void opened.requests.push(request.url()));
    await page.goto(`${origin}${path}`);
    return opened;
  }

  /** Closes the opened pages and their servers. */
  async closePages(): Promise<void> {
    for (const close of this.#closers.splice(0)) await close();
  }

  async stop(): Promise<void> {
    await this.closePages();
    await this.#browser.close();
  }
}
