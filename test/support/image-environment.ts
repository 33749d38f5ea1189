import { readFileSync } from "node:fs";

const DOCKERFILE = readFileSync(new URL("../../Dockerfile", import.meta.url), "utf8");

/** The environment variables that the image sets, by name. */
export const IMAGE_ENVIRONMENT: Readonly<Record<string, string>> = Object.fromEntries(
  [...DOCKERFILE.matchAll(/^ENV (\w+)=(?:"(.*)"|(\S+))$/gm)].map(([, name, quoted, plain]) => [
    name,
    quoted ?? plain,
  ]),
);
