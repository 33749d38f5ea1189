import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { V1Container } from "@kubernetes/client-node";
import { validate } from "dockerfile-utils";
import { describe, expect, test } from "vitest";
import { buildOverlay, CLEANUP, OVERLAYS } from "../../support/overlays.ts";

const ROOT = fileURLToPath(new URL("../../../", import.meta.url));
const TEXT = readFileSync(`${ROOT}Dockerfile`, "utf8");

/** The instructions, without comments, continued lines joined. */
const INSTRUCTIONS = TEXT.replaceAll(/^#.*\n/gm, "")
  .replaceAll(/\\\n\s*/g, "")
  .split("\n")
  .filter((line) => line !== "");

const of = (keyword: string): string[] =>
  INSTRUCTIONS.flatMap((line) => (line.startsWith(`${keyword} `) ? [line.slice(keyword.length + 1)] : []));

describe("the Dockerfile", () => {
  test("passes the Dockerfile linter", () => {
    expect(validate(TEXT)).toEqual([]);
    expect(validate("FORM debian\n")).not.toEqual([]);
  });

  test("names the versions of its base images, and takes only the bundle and licences into the last stage", () => {
    const bases = of("FROM").map((line) => line.replace(/^--platform=\S+ /, "").split(" ")[0]);
    expect(bases).toHaveLength(3);
    for (const base of bases.slice(0, 2)) expect(base).toMatch(/^[a-z]+:\d+[\w.-]*$/);
    expect(bases[2]).toBe("scratch");
    const last = TEXT.slice(TEXT.lastIndexOf("\nFROM "));
    const taken = [...last.matchAll(/^COPY --from=build (?:--chmod=\d+ )?(\S+)/gm)].map(([, path]) => path);
    expect(taken).toEqual(["/source/dist/nft-proxy.js", "/source/dist/THIRD_PARTY_LICENSES"]);
    expect(last).not.toContain("node_modules");
  });

  test("has no shell and no package manager in the last stage", () => {
    const files = readFileSync(`${ROOT}scripts/image-files.sh`, "utf8");
    expect(/^programs="(.*)"$/m.exec(files)?.[1]?.split(" ")).toEqual([
      "/usr/bin/env",
      "/usr/bin/prlimit",
      "/usr/bin/node",
      "/usr/sbin/nft",
      "/usr/bin/socat",
    ]);
  });

  test("copies files that exist and that .dockerignore lets through", () => {
    const sources = of("COPY").flatMap((line) =>
      line.startsWith("--from") ? [] : line.split(" ").slice(0, -1),
    );
    const ignore = readFileSync(`${ROOT}.dockerignore`, "utf8").split("\n");
    for (const source of sources) {
      expect(existsSync(ROOT + source), source).toBe(true);
      expect(ignore.some((line) => line === `!${source}` || source.startsWith(`${line.slice(1)}/`))).toBe(
        true,
      );
    }
  });

  test("leaves no package lists behind, and installs no recommended packages", () => {
    const [install] = of("RUN").filter((line) => line.includes("apt-get install"));
    expect(install).toContain("--no-install-recommends");
    expect(install).toContain("rm -rf /var/lib/apt/lists/*");
  });

  test("starts and checks its health without a shell", () => {
    for (const line of [...of("ENTRYPOINT"), ...of("CMD")]) expect(JSON.parse(line)).toBeInstanceOf(Array);
    const [health = ""] = of("HEALTHCHECK");
    const command = JSON.parse(health.slice(health.indexOf("CMD ") + 4)) as string[];
    expect(command.slice(0, 2)).toEqual(["node", "--eval"]);
    expect(() => new Function(command[2] ?? "(")).not.toThrow();
    expect(command[2]).toContain("/livez");
  });

  test("carries the package's version and licence", () => {
    const { version, license, description } = JSON.parse(readFileSync(`${ROOT}package.json`, "utf8"));
    expect(of("ARG")).toEqual([`VERSION=${version}`]);
    const [labels] = of("LABEL");
    expect(labels).toContain(`licenses="${license}"`);
    expect(labels).toContain(`description="${description}"`);
  });

  test("gives Node a heap that leaves half of the DaemonSet's memory to nft", () => {
    const heap = Number(/--max-old-space-size=(\d+)/.exec(of("ENV").join())?.[1]);
    const daemonSet = buildOverlay("explicit-control-plane").find(({ kind }) => kind === "DaemonSet");
    const spec = daemonSet?.spec as { template: { spec: { containers: V1Container[] } } };
    const limit = spec.template.spec.containers[0]?.resources?.limits?.memory ?? "";
    expect(heap).toBeGreaterThanOrEqual(512);
    expect(heap).toBeLessThanOrEqual(Number(limit.replace("Mi", "")) / 2);
  });

  test("makes the image that the DaemonSet of every overlay names", () => {
    const { version } = JSON.parse(readFileSync(`${ROOT}package.json`, "utf8"));
    for (const overlay of [...OVERLAYS, CLEANUP] as const) {
      const daemonSet = buildOverlay(overlay).find(({ kind }) => kind === "DaemonSet");
      const images = [...JSON.stringify(daemonSet).matchAll(/"image":"([^"]*)"/g)].map(([, image]) => image);
      const containers = overlay === CLEANUP ? 2 : 1;
      expect(images).toEqual(Array(containers).fill(`ghcr.io/nft-proxy/nft-proxy:${version}`));
    }
  });
});
