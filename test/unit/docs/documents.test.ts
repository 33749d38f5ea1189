import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { FLAGS } from "../../../src/cli/flags.ts";
import { COMMANDS } from "../../../src/cli/program/commands.ts";
import { STEP_NAMES } from "../../../src/ruleset/plan-step.ts";
import { documentPaths, withFigures } from "../../bench/documents.ts";
import { type Scaling, scalingPlot } from "../../bench/results.ts";
import scaling from "../../bench/scaling.json" with { type: "json" };
import { DEPLOY } from "../../support/overlays.ts";

const ROOT = join(DEPLOY, "..");
const PACKAGE = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
/** Flags that the program answers before it looks for a command's own. */
const PARSER_FLAGS = ["help", "help-all", "version"];
const DOCUMENTS = [
  ...["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "deploy/README.md"],
  ...readdirSync(join(ROOT, "docs"), { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".md"))
    .map((path) => `docs/${path}`)
    .sort(),
];

/** The text without fenced blocks. */
function prose(text: string): string {
  return text.replaceAll(/^ *```[\s\S]*?^ *```/gm, "");
}

/** The words between backticks. */
function code(text: string): string[] {
  return [...prose(text).matchAll(/`([^`\n]+)`/g)].map(([, words]) => words ?? "");
}

/** The text under a heading of a document, up to the next heading of level two. */
function sectionOf(document: string, heading: string): string {
  const text = readFileSync(join(ROOT, document), "utf8");
  return text.slice(text.indexOf(`${heading}\n`) + heading.length).split("\n## ")[0] ?? "";
}

/** The sources that a source imports, lazily loaded ones too. */
function importsOf(file: string): string[] {
  const imported = readFileSync(join(ROOT, file), "utf8").matchAll(/(?:\bfrom |\bimport\()"(\.[^"]+)"/g);
  return [...imported].map(([, path = ""]) => join(dirname(file), path));
}

/** The anchors that a hosting site makes of a document's headings. */
function anchors(text: string): string[] {
  const headings = [...prose(text).matchAll(/^#+ (.*)$/gm)].map(([, heading = ""]) => heading.toLowerCase());
  return headings.map((heading) => heading.replaceAll(/[^\w\- ]/g, "").replaceAll(" ", "-"));
}

/** Whether a link of a document leads to a file, and to a heading where it names one. */
function leadsNowhere(document: string, link: string): boolean {
  const [path = "", anchor] = link.split("#");
  const target = path === "" ? join(ROOT, document) : join(ROOT, dirname(document), path);
  return (
    !existsSync(target) || (anchor !== undefined && !anchors(readFileSync(target, "utf8")).includes(anchor))
  );
}

describe.each(DOCUMENTS)("%s", (document) => {
  const text = readFileSync(join(ROOT, document), "utf8");
  const words = code(text);

  test("names files that exist", () => {
    const paths = words.filter((word) =>
      /^(?:base|ci|deploy|docs|monitoring|overlays|schemas|scripts|src|test|\.github)\/[\w./-]+$/.test(word),
    );
    const missing = paths.filter((path) => !existsSync(join(ROOT, path)) && !existsSync(join(DEPLOY, path)));
    expect(missing).toEqual([]);
  });

  test("links to files and headings that exist", () => {
    const links = [...prose(text).matchAll(/\]\(([^)\s]+)\)/g)].map(([, link]) => link ?? "");
    const own = links.filter((link) => !/^\w+:/.test(link));
    expect(own.filter((link) => leadsNowhere(document, link))).toEqual([]);
  });

  test("names commands, flags and scripts that exist", () => {
    const commands = words.flatMap((word) => /^nft-proxy ([a-z-]+)/.exec(word)?.[1] ?? []);
    // completion is the argument parser's own.
    expect([...COMMANDS.map(({ name }) => name), "completion"]).toEqual(expect.arrayContaining(commands));
    const flags = words.flatMap((word) => /^(?:nft-proxy .*)?--([a-z][a-z-]*)/.exec(word)?.[1] ?? []);
    expect([...FLAGS.map(({ name }) => name), ...PARSER_FLAGS]).toEqual(expect.arrayContaining(flags));
    const used = [...text.matchAll(/\bnpm run ([\w:-]+)/g)].map(([, script]) => script);
    expect(Object.keys(PACKAGE.scripts)).toEqual(expect.arrayContaining(used));
  });
});

describe("README.md", () => {
  test("lists every command", () => {
    const words = code(readFileSync(join(ROOT, "README.md"), "utf8"));
    const listed = words.flatMap((word) => /^nft-proxy ([a-z-]+)/.exec(word)?.[1] ?? []);
    expect(listed).toEqual(expect.arrayContaining(COMMANDS.map(({ name }) => name)));
  });
});

describe("the figures that the benchmarks save", () => {
  const results = readFileSync(join(ROOT, "test/bench/RESULTS.md"), "utf8");

  test.each(documentPaths())("are the ones in %s", (path) => {
    const text = readFileSync(join(ROOT, path), "utf8");
    expect(text).toBe(withFigures(text, results));
  });

  test("replace others", () => {
    const row = "resident memory, steady, 10,000 x 10";
    const link = (text: string, title: string) => `takes [${text}](../test/bench/RESULTS.md "${title}").`;
    expect(withFigures(link("1 MB", row), results)).toMatch(/^takes \[\d+ MB\]/);
    expect(withFigures(link("1 MB", `${row}: budget`), results)).toMatch(/^takes \[at most \d+ MB: /);
    const table = "| memory of all processes at rest | 1 MB     | 258 MB |\n";
    expect(withFigures(table, results)).toMatch(
      /^\| memory of all processes at rest \| \d+ MB +\| 258 MB \|\n$/,
    );
    expect(() => withFigures(link("1 MB", "no such row"), results)).toThrow(
      'RESULTS.md has no "no such row"',
    );
  });
});

describe("docs/scaling.svg", () => {
  test("is the plot of the figures that the benchmark saved", () => {
    expect(readFileSync(join(ROOT, "docs/scaling.svg"), "utf8")).toBe(scalingPlot(scaling as Scaling));
  });
});

describe("CONTRIBUTING.md", () => {
  const words = code(readFileSync(join(ROOT, "CONTRIBUTING.md"), "utf8"));

  test("describes every folder of src and every kind of test", () => {
    for (const folder of readdirSync(join(ROOT, "src"))) expect(words).toContain(`src/${folder}`);
    const kinds = readdirSync(join(ROOT, "test")).filter(
      (name) => !["demo", "fixtures", "support"].includes(name),
    );
    for (const kind of kinds) expect(words).toContain(`test/${kind}`);
  });

  test("names the one file of src that defines each behaviour", () => {
    const sources = readdirSync(join(ROOT, "src"), { recursive: true, encoding: "utf8" })
      .filter((path) => path.endsWith(".ts"))
      .map((path) => ({ path: `src/${path}`, text: readFileSync(join(ROOT, "src", path), "utf8") }));
    const section = sectionOf("CONTRIBUTING.md", "## Where is it?");
    const rows = [...section.matchAll(/^\| .*? \| `(src\/[^`]+)` +\| `(\w+)` +\|$/gm)];
    expect(rows.length).toBeGreaterThan(24);
    for (const [, file = "", name = ""] of rows) {
      const definition = new RegExp(
        `^(?:export )?(?:async )?(?:function\\*?|const|class|interface|type) ${name}\\b`,
        "m",
      );
      const definers = sources.filter(({ text }) => definition.test(text)).map(({ path }) => path);
      expect(definers, name).toEqual([file]);
    }
  });
});

describe("docs/dev/design.md", () => {
  test.each([
    ["### A foreign change, module by module", "src/kernel/netlink-listener.ts"],
    ["### `explain`, from its arguments to its text", "src/cli/program/main.ts"],
  ])('lists under "%s" modules that an earlier or a connecting one imports, none twice', (title, start) => {
    const [section = ""] = sectionOf("docs/dev/design.md", title).split("\n### ");
    const sourcesIn = (text: string) => code(text).filter((word) => word.startsWith("src/"));
    const rows = [...section.matchAll(/^\| `(src\/[^`]+)` +\| [^|]* \|([^|]*)\|$/gm)];
    const modules = rows.flatMap(([, module = "", uses = ""]) => [module, ...sourcesIn(uses)]);
    expect(modules[0]).toBe(start);
    expect(modules).toEqual([...new Set(modules)]);
    const reached = [start, ...sourcesIn(section.slice(0, section.indexOf("| module")))];
    for (const module of modules.slice(1)) {
      const isReached = reached.some((one) => importsOf(one).includes(module));
      expect(isReached, `${module} is reached`).toBe(true);
      reached.push(module);
    }
  });

  test("draws the way of a change with functions that its files define", () => {
    const section = sectionOf("docs/dev/design.md", "### A change, drawn");
    const [drawing = ""] = section.split("\n### ");
    const rows = [...drawing.matchAll(/([a-z]+\/[\w/-]+\.ts) +(#?\w+)/g)];
    expect(rows.length).toBeGreaterThan(30);
    for (const [, file = "", name = ""] of rows) {
      const definition = new RegExp(
        `^ *(?:export )?(?:readonly )?(?:async )?(?:function )?\\*?${name}(?:<|\\(|:)`,
        "m",
      );
      expect(readFileSync(join(ROOT, "src", file), "utf8"), `${file} ${name}`).toMatch(definition);
    }
  });

  test("lists the steps of a plan in their order, and for each the test that guards it", () => {
    const text = readFileSync(join(ROOT, "docs/dev/design.md"), "utf8");
    const rows = [...text.matchAll(/^\| ([^|]+?) +\| [^|]+ \| `(test\/[^`]+)`: "([^|]+)" +\|$/gm)];
    expect(rows.map(([, name]) => name)).toEqual(STEP_NAMES);
    for (const [, name, file = "", title = ""] of rows)
      expect(readFileSync(join(ROOT, file), "utf8"), name).toContain(`"${title}"`);
  });

  test("links to every decision", () => {
    const text = readFileSync(join(ROOT, "docs/dev/design.md"), "utf8");
    for (const page of readdirSync(join(ROOT, "docs/dev/decisions")))
      expect(text).toContain(`](decisions/${page})`);
  });
});

/** Whether a name matches a pattern of a shell in which only `*` is special. */
function matchesGlob(name: string, pattern: string): boolean {
  return new RegExp(`^${pattern.replaceAll(".", "\\.").replaceAll("*", ".*")}$`).test(name);
}

describe("docs/support.md", () => {
  const text = readFileSync(join(ROOT, "docs/support.md"), "utf8");
  const workflow = readFileSync(join(ROOT, ".github/workflows/release.yaml"), "utf8");
  const ci = parse(readFileSync(join(ROOT, ".github/workflows/ci.yaml"), "utf8"));

  test("lists the files that a release publishes", () => {
    const [, published = ""] = /gh release create[^\n]*\n(.*)/.exec(workflow) ?? [];
    const [, section = ""] = /## What a release contains\n([\s\S]*?)\n## /.exec(text) ?? [];
    const patterns = published.trim().split(" ");
    const listed = [...section.matchAll(/^\|([^|]*)\|/gm)]
      .flatMap(([, cell = ""]) => [...cell.matchAll(/`([^`]+)`/g)].map(([, name = ""]) => name))
      .filter((name) => !name.includes("/"));
    expect(listed.filter((name) => !patterns.some((pattern) => matchesGlob(name, pattern)))).toEqual([]);
    expect(patterns.filter((pattern) => !listed.some((name) => matchesGlob(name, pattern)))).toEqual([]);
  });

  test("lists the manifests of every overlay", () => {
    for (const overlay of readdirSync(join(DEPLOY, "overlays"))) {
      expect(text).toContain(`\`nft-proxy-${overlay}.yaml\``);
    }
  });

  test("verifies the signature of the workflow that signs", () => {
    const repository = PACKAGE.repository.url.replace(/^git\+|\.git$/g, "");
    expect(workflow).toContain("cosign sign");
    expect(text).toContain(`--certificate-identity ${repository}/.github/workflows/release.yaml@refs/tags/v`);
    expect(text).toContain(`--repo ${repository.replace("https://github.com/", "")}`);
  });

  test("names the versions that CI runs", () => {
    const { env } = ci.jobs.e2e;
    const table = text.split("\n").filter((line) => line.startsWith("| "));
    const row = (name: string) => table.find((line) => line.startsWith(`| ${name}`));
    expect(row("Kubernetes")).toContain(env.KUBERNETES.slice(1));
    expect(row("Linux")).toContain(ci.jobs.test["runs-on"]);
    expect(row("Node.js")).toContain(/^node:([\d.]+)-/.exec(ci.jobs.test.container.image)?.[1]);
  });
});

describe("deploy/README.md", () => {
  test("describes every overlay", () => {
    const words = code(readFileSync(join(DEPLOY, "README.md"), "utf8"));
    for (const overlay of readdirSync(join(DEPLOY, "overlays")))
      expect(words).toContain(`overlays/${overlay}`);
  });
});

describe("deploy/ci/github-workflow.yaml", () => {
  test("runs a command that exists, with flags that it takes", () => {
    const workflow = readFileSync(join(DEPLOY, "ci/github-workflow.yaml"), "utf8");
    const [, name, rest = ""] = /"\$NFT_PROXY"\s+(\S+)(.*)/.exec(workflow) ?? [];
    const command = COMMANDS.find((one) => one.name === name);
    const flags = [...rest.matchAll(/--([a-z-]+)/g)].map(([, flag]) => flag);
    expect(command?.flags).toEqual(expect.arrayContaining(flags));
    // GitHub runs a job's container by its shell, which our image does not have.
    expect(parse(workflow).jobs.check).not.toHaveProperty("container");
  });
});

describe("the forms for issues", () => {
  const folder = join(ROOT, ".github/ISSUE_TEMPLATE");

  test.each(["bug.yaml", "feature.yaml"])(
    "%s has a name, a description and fields with ids of their own",
    (form) => {
      const { name, description, body } = parse(readFileSync(join(folder, form), "utf8"));
      expect([name, description].every((text) => typeof text === "string" && text !== "")).toBe(true);
      const fields = (body as { type: string; id?: string; attributes: { label?: string } }[]).filter(
        ({ type }) => type !== "markdown",
      );
      expect(fields.every(({ id, attributes }) => id !== undefined && attributes.label !== undefined)).toBe(
        true,
      );
      expect(new Set(fields.map(({ id }) => id)).size).toBe(fields.length);
    },
  );

  test("link to the repository that package.json names", () => {
    const { contact_links: links } = parse(readFileSync(join(folder, "config.yml"), "utf8"));
    const repository = PACKAGE.repository.url.replace(/^git\+|\.git$/g, "");
    for (const { url } of links) expect(url).toContain(`${repository}/`);
    expect(PACKAGE.bugs).toBe(`${repository}/issues`);
  });
});
