import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { nftProgram } from "../../../src/kernel/nft.ts";
import { NftStoppedError } from "../../../src/kernel/nft-errors.ts";

const NOTHING = { nftables: [] };
const TABLES = ["-j", "list", "tables"];

describe("Nft.stopReading", () => {
  let directory: string;
  let path: string;

  /** An nft that applies at once, and whose checks and listings hang. */
  beforeAll(() => {
    directory = mkdtempSync(join(tmpdir(), "nft-stop-"));
    path = join(directory, "nft");
    writeFileSync(path, '#!/bin/sh\ncat >/dev/null\n[ "$*" = "-j -f -" ] || exec sleep 60\nsleep 0.1\n');
    chmodSync(path, 0o700);
  });
  afterAll(() => rmSync(directory, { recursive: true }));

  test("ends running listings and checks, and lets a running transaction finish", async () => {
    const nft = nftProgram({ path });
    const reading = [nft.list(TABLES), nft.check(NOTHING)];
    const applied = nft.apply(NOTHING);
    const results = Promise.allSettled(reading);
    nft.stopReading();
    expect(await results).toEqual(
      reading.map(() => ({ status: "rejected", reason: expect.any(NftStoppedError) })),
    );
    expect((await applied).bytes).toBeGreaterThan(0);
  });

  test("starts no listings afterwards, but still starts transactions", async () => {
    const nft = nftProgram({ path });
    nft.stopReading();
    await expect(nft.list(TABLES)).rejects.toThrow(NftStoppedError);
    expect((await nft.apply(NOTHING)).bytes).toBeGreaterThan(0);
  });

  test("keeps no reference to a listing that has ended", async () => {
    const signals: AbortSignal[] = [];
    const any = vi.spyOn(AbortSignal, "any").mockImplementation((sources) => {
      const made = [...sources];
      signals.push(...made);
      return made[0] as AbortSignal;
    });
    const nft = nftProgram({ path: "true" });
    for (let n = 0; n < 6; n++) await nft.list(TABLES, new AbortController().signal);
    any.mockRestore();
    expect(signals).toHaveLength(12);
    expect(new Set(signals).size, "one that is combined again and again keeps a trace of each time").toBe(12);
  });
});
