import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { execa } from "execa";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { COMMANDS } from "../../src/cli/program/commands.ts";
import { bundle, townFlags, townObjects } from "../support/command.ts";
import { nftProxy } from "../support/nft-proxy.ts";

const DUMP = [process.execPath, bundle, "dump", "--from", townObjects("town"), ...townFlags] as const;

describe("the command line", () => {
  test.each([
    ["no command", [], "missing command"],
    ["an unknown command", ["aply"], "aply"],
    ["an unknown flag", ["apply", "--form=x"], "form"],
    ["no objects", ["apply"], "--from"],
    ["a value that is not valid", ["dump", "--from=x", "--cluster-cidr=10.0.0.0/99"], "--cluster-cidr"],
    ["a namespace that cannot be", ["refusals", "-n", "A B"], "--namespace must be"],
    [
      "a namespace that cannot be, before it looks for a cluster",
      ["fleet", "-n", "A B"],
      "--namespace must be",
    ],
    ["another proxy's mode", ["run", "--proxy-mode=kernelspace"], "--proxy-mode"],
    ["a file that does not exist", ["dump", "--from=/nowhere/objects"], "/nowhere/objects"],
    [
      "a configuration that does not exist",
      ["dump", "--from=x", "--config=/nowhere/config"],
      "/nowhere/config",
    ],
    ["a configuration that is a directory", ["dump", "--from=x", "--config=/"], "it is a directory"],
    ["no cluster", ["run"], "API server"],
    [
      "neither a daemon nor a cluster to ask",
      ["explain", "shop/cart", "--daemon-socket=/nowhere/socket"],
      "no daemon answers at /nowhere/socket, and no API server is configured",
    ],
    ["a Service without objects", ["explain", "--live", "shop/cart"], "no API server is configured"],
    ["an option without the one that it needs", ["diff", "--live"], "--live needs --with"],
    ["options that exclude each other", ["diff", "--against=x", "--outcomes"], "--against compares rules"],
    ["a mistyped Service", [...DUMP.slice(2), "--service=shop/car"], "did you mean shop/cart?"],
  ])("ends with an error message and exit code 2 for %s", async (_what, args, said) => {
    const { exitCode, stdout, stderr } = await nftProxy(args);
    expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: "" });
    expect(stderr).toMatch(/^nft-proxy: /m);
    expect(stderr).toContain(said);
    expect(stderr).not.toMatch(/\n\s+at /);
  });

  test("prints warnings about the configuration before an error", async () => {
    const { exitCode, stderr } = await nftProxy([
      ...DUMP.slice(2),
      "--proxy-mode=ipvs",
      "--service=shop/car",
    ]);
    expect(exitCode).toBe(2);
    expect(stderr).toMatch(/^warning: .*ipvs.*\nnft-proxy: .*shop\/car/);
  });

  test("lists every command in its help, and the options of a command in that command's help", async () => {
    const { exitCode, stdout } = await nftProxy(["--help"]);
    expect(exitCode).toBe(0);
    for (const command of ["run", "apply", "dump", "diff", "check", "cleanup"])
      expect(stdout).toMatch(new RegExp(`^  ${command} `, "m"));
    expect((await nftProxy(["help"])).stdout).toBe(stdout);
    expect((await nftProxy(["apply", "--help"])).stdout).toContain("--nodeport-addresses");
    expect((await execa(process.execPath, [bundle, "--version"])).stdout).toMatch(/^\d+\.\d+\.\d+$/);
  });

  test("wraps its help to COLUMNS", async () => {
    const { stdout } = await execa(process.execPath, [bundle, "--help"], { env: { COLUMNS: "60" } });
    expect(Math.max(...stdout.split("\n").map((line) => line.length))).toBeLessThanOrEqual(60);
  });

  test.each([
    [["--hlep"], "unknown option: --hlep", "did you mean --help?"],
    [["--masquerade"], "unknown option: --masquerade", "nft-proxy --help shows the commands"],
    [["explan"], "unknown command: explan", "did you mean explain?"],
    [["explain", "--form=x", "1.2.3.4:5"], "explain has no option --form", "did you mean --from?"],
    [["check", "--draining"], "check has no option --draining", "it is an option of connections"],
    [["apply", "--dry-run", "-f", "x"], "apply has no option --dry-run", "nft-proxy diff --from PATH shows"],
    [["check", "web.yaml"], "unexpected argument: web.yaml", "-f names files: -f web.yaml"],
    [["explain", "a", "b"], "unexpected argument: b", "nft-proxy explain --help"],
    [
      ["run", "--masquerade-all", "false"],
      "unexpected argument: false",
      "a boolean option takes its value after an equals sign: --name=false",
    ],
    [["explain", "-from", "x"], "explain has no option -from", "did you mean --from?"],
    [["zebra"], "unknown command: zebra", "nft-proxy --help"],
  ])("suggests a correction of %j", async (args, said, hint) => {
    const { exitCode, stderr } = await nftProxy(args);
    expect({ exitCode, stderr }).toEqual({ exitCode: 2, stderr: expect.stringContaining(said) });
    expect(stderr).toContain(`hint: ${hint}`);
  });

  test.each([
    ["check", []],
    ["explain", ["--hostname-override=node-1", "shop/cart"]],
    ["diff", ["--against", townObjects("town-after")]],
    ["diff", ["--outcomes", "--with-objects", townObjects("town-after")]],
  ])("prints with -o yaml the data of -o json: %s", async (name, args) => {
    const print = (format: string) => nftProxy([name, ...args, "-o", format, "--from", townObjects("town")]);
    const [json, yaml] = [await print("json"), await print("yaml")];
    expect(yaml.exitCode).toBe(json.exitCode);
    expect(parse(yaml.stdout)).toEqual(JSON.parse(json.stdout));
  });

  test("refuses a format that a command does not have", async () => {
    expect(await nftProxy(["dump", "-o", "yaml"])).toMatchObject({
      exitCode: 2,
      stderr: expect.stringMatching(/^nft-proxy: --output must be json or nft, not .yaml/),
    });
  });

  test("shows common options with --help, and all of them with --help-all", async () => {
    const [short, long] = [await nftProxy(["explain", "--help"]), await nftProxy(["explain", "--help-all"])];
    expect(short.stdout).toContain("--cluster-cidr");
    expect(short.stdout).not.toContain("--conntrack-min");
    expect(short.stdout.split("\n").length).toBeLessThan(75);
    expect(long.stdout).toContain("--conntrack-min");
    expect(long.exitCode).toBe(0);
  });

  test.each([
    ["formats", ["fleet", "-o", ""], ["text", "json", "yaml"]],
    ["formats of a command", ["check", "--output", "g"], ["github"]],
    ["formats after an equals sign", ["check", "--output", "=", "g"], ["github"]],
    ["formats in one word", ["check", "--output=gi"], ["--output=github"]],
    ["commands", ["exp"], ["explain"]],
    ["options, the common ones", ["run", "--con"], ["--config"]],
    ["options that are not common", ["run", "--conntrack-mi"], ["--conntrack-min"]],
    ["options of one letter, with one dash", ["run", "-v"], ["-v"]],
    ["no short forms", ["fleet", "--n"], ["--namespace"]],
    ["shells", ["completion", ""], ["bash", "zsh", "fish"]],
    ["files, by the shell", ["support-bundle", ""], []],
    ["namespaces", ["explain", "-f", townObjects("town"), "-n", "sh"], ["shop"]],
    ["Services", ["explain", "-f", townObjects("town"), "shop/c"], ["shop/cart"]],
    [
      "Services of a namespace",
      ["dump", "-f", townObjects("town"), "-n", "shop", "--service", "c"],
      ["cart"],
    ],
    ["Services of a cluster that does not answer", ["explain", "--master=http://127.0.0.1:1", "a"], []],
  ])("completes %s", async (_what, words, expected) => {
    const { exitCode, stdout } = await nftProxy(["--complete", ...words]);
    expect({ exitCode, values: stdout.split("\n").filter((line) => line !== "") }).toEqual({
      exitCode: 0,
      values: expected,
    });
  });

  test("completes commands and options in bash", async () => {
    const { stdout: script } = await nftProxy(["completion", "bash"]);
    const shell = `nft-proxy() { "${process.execPath}" "${bundle}" "$@"; }
${script}
COMP_WORDS=(nft-proxy explain --fro); COMP_CWORD=2; ${/complete .*-F (\S+)/.exec(script)?.[1]}; echo "\${COMPREPLY[@]}"`;
    const { stdout, stderr } = await execa("bash", ["-c", shell]);
    expect({ stdout, stderr }).toEqual({ stdout: "--from --from-ip", stderr: "" });
  });

  test.each(COMMANDS.map(({ name }) => name))("%s ends with 2 for an option that it lacks", async (name) => {
    expect(await nftProxy([name, "--no-such-option"])).toMatchObject({ exitCode: 2, stdout: "" });
  });

  test.each([
    ...["dump", "diff", "connections", "fleet"].map((name) => [name]),
    ["explain", "shop/cart"],
    ["refusals", "--service=shop/cart"],
    ["trace", "--service=shop/cart"],
  ])("%s ends with 2 when no API server answers, and names the server", async (...args) => {
    const { exitCode, stdout, stderr } = await nftProxy([...args, "--master=http://127.0.0.1:1"]);
    expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: "" });
    expect(stderr).toMatch(
      /^nft-proxy: cannot list .* at http:\/\/127\.0\.0\.1:1: .*ECONNREFUSED.*\n {2}hint: /,
    );
  });

  test.each([
    ...["dump", "connections", "refusals", "trace"].map((name) => [name, "no rules are made for shop/car"]),
    ["explain", "there is no Service shop/car"],
  ])("%s ends with 2 for a Service that does not exist, and names the likely one", async (name, said) => {
    const args = ["--from", townObjects("town"), ...townFlags, "--service=shop/car"];
    const { exitCode, stdout, stderr } = await nftProxy([name, ...args]);
    expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: "" });
    expect(stderr).toContain(`nft-proxy: ${said}\n  hint: did you mean shop/cart?`);
  });

  test.each(["check", "apply", "explain"])("%s refuses an empty path", async (name) => {
    const { exitCode, stderr } = await nftProxy([name, "--from", ""]);
    expect({ exitCode, stderr }).toEqual({
      exitCode: 2,
      stderr: expect.stringContaining("--from needs a value"),
    });
  });

  test("a pipe closed by its reader ends a command without an error and with its usual exit code", async () => {
    const early = (command: string) =>
      execa("bash", ["-c", `"$@" ${command}; echo "\${PIPESTATUS[0]}"`, "bash", ...DUMP]);
    expect(await early("| head -c 1")).toMatchObject({ stdout: "{0", stderr: "" });
    const full = await early("> /dev/full");
    expect(full).toMatchObject({
      stdout: "2",
      stderr: "nft-proxy: cannot write the output: no space left on device",
    });
  });

  test("writes an archive to standard output, byte by byte", async () => {
    const { stdout } = await execa(process.execPath, [bundle, "support-bundle", "-"], { encoding: "buffer" });
    expect(gunzipSync(stdout).subarray(257, 262).toString(), "the magic of tar").toBe("ustar");
  });

  test("reads a long dump to its end through a pipe", async () => {
    const { stdout } = await execa(DUMP[0], DUMP.slice(1));
    expect(JSON.parse(stdout).nftables.length).toBeGreaterThan(100);
  });

  test("reads the same from standard input, YAML and a directory", async () => {
    const directory = await mkdtemp(join(tmpdir(), "nft-proxy-"));
    const service = `apiVersion: v1
kind: Service
metadata: { namespace: shop, name: cart }
spec: { clusterIP: 10.96.0.7, clusterIPs: [10.96.0.7], ports: [{ port: 80 }] }
`;
    await writeFile(join(directory, "cart.yaml"), service);
    const fromFile = await nftProxy(["dump", "--from", directory]);
    const fromInput = await nftProxy(["dump", "--from=-"], service);
    expect(fromFile).toEqual(fromInput);
    expect(await nftProxy(["dump", "--from", "-"], service)).toEqual(fromFile);
    expect(await nftProxy(["dump", "-f", "-", "-o", "json"], service)).toEqual(fromFile);
    expect(fromFile.stdout).toContain("10.96.0.7");
  });

  test("prints the same bytes for the same objects in another order of files", async () => {
    const objects = townObjects("town");
    const names = ["services", "endpointslices", "nodes", "servicecidrs"].map((name) =>
      join(objects, `${name}.json`),
    );
    const there = await nftProxy(["dump", "--from", ...names, ...townFlags]);
    const back = await nftProxy(["dump", "--from", ...names.reverse(), ...townFlags]);
    expect(there.exitCode).toBe(0);
    expect(there.stdout).toBe(back.stdout);
  });
});
