import fc from "fast-check";
import { expect, test } from "vitest";
import { type ServiceName, type ServicePortKey, serviceOf } from "../../src/model/ids.ts";
import type { ObjectCache } from "../../src/model/object-cache.ts";
import type { Command, Transaction } from "../../src/nft/ast/json.ts";
import { diffRuleset, writtenChains } from "../../src/nft/delta.ts";
import { removalTransaction } from "../../src/nft/transaction.ts";
import type { NodeContext } from "../../src/ruleset/node-context.ts";
import { Reconciler } from "../../src/sync/reconciler.ts";
import { anyContexts, anyObjects } from "../support/arbitraries.ts";
import { cacheOf, type Objects, renderAll, testNodeContext, withoutStaleRanges } from "../support/build.ts";
import { FakeNft } from "../support/fake-nft.ts";
import { runs } from "../support/property-runs.ts";
import { textWithoutPlacement } from "../support/ruleset-text.ts";

type AllObjects = Required<Objects>;

/** A fault of nft, or of our own, during one sync. */
type Fault =
  | { readonly kind: "none" }
  /** The first Service to be rendered. */
  | { readonly kind: "cannot be rendered" }
  /** Somebody empties a set while the sync writes, and the reconciler is told. */
  | { readonly kind: "drift" }
  /** This run of it takes too long, before or after it did its work. */
  | { readonly kind: "times out"; readonly run: number; readonly isDone: boolean }
  | { readonly kind: "prints nonsense" }
  | { readonly kind: "refuses"; readonly text: string };

type Step =
  | { readonly kind: "objects"; readonly objects: AllObjects }
  | { readonly kind: "context"; readonly nodeContext: NodeContext }
  | { readonly kind: "interference"; readonly transaction: Transaction }
  | { readonly kind: "sync"; readonly fault: Fault; readonly isFull: boolean; readonly retries: boolean }
  | { readonly kind: "clean up" }
  | { readonly kind: "restart" };

const REFUSED_FAMILY = '"family":"ip6"';

const table = { family: "ip", table: "nft-proxy" } as const;
const command = (one: Command): Transaction => ({ nftables: [one] });

const anyStep: fc.Arbitrary<Step> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("objects" as const), objects: anyObjects }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("context" as const),
      nodeContext: fc.oneof(
        anyContexts,
        fc.constant(testNodeContext({ affinityMapSize: 7 })),
        fc.constant(testNodeContext().filter(({ family }) => family === "ip")),
      ),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("interference" as const),
      transaction: fc.constantFrom(
        removalTransaction([{ family: "ip", name: "nft-proxy" }]),
        command({ flush: { chain: { ...table, name: "services" } } }),
        command({ flush: { set: { ...table, name: "cluster-ips" } } }),
        command({ add: { chain: { ...table, name: "foreign" } } }),
      ),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("sync" as const),
      fault: fc.oneof(
        { weight: 3, arbitrary: fc.constant<Fault>({ kind: "none" }) },
        {
          weight: 1,
          arbitrary: fc.record({
            kind: fc.constant("times out" as const),
            run: fc.nat(6),
            isDone: fc.boolean(),
          }),
        },
        {
          weight: 2,
          arbitrary: fc.constantFrom<Fault>(
            { kind: "prints nonsense" },
            { kind: "cannot be rendered" },
            { kind: "drift" },
          ),
        },
        {
          weight: 2,
          arbitrary: fc
            .constantFrom("10.96.0.1", "203.0.113.2", "10.244.2.1", REFUSED_FAMILY)
            .map((text): Fault => ({ kind: "refuses", text })),
        },
      ),
      isFull: fc.boolean(),
      retries: fc.boolean(),
    }),
  },
  { weight: 1, arbitrary: fc.constant<Step>({ kind: "clean up" }) },
  { weight: 1, arbitrary: fc.constant<Step>({ kind: "restart" }) },
);

/** Makes the objects of the cache these. */
function put(cache: ObjectCache, { services, slices }: AllObjects): void {
  const names = new Set(services.map(({ name }) => name));
  const keys = new Set(slices.map(({ service, name }) => `${service} ${name}`));
  for (const name of cache.serviceNames()) if (!names.has(name)) cache.deleteService(name);
  for (const slice of cache.allSlices())
    if (!keys.has(`${slice.service} ${slice.name}`)) cache.deleteSlice(slice);
  for (const service of services) cache.putService(service);
  for (const slice of slices) cache.putSlice(slice);
}

/** A node: objects, a kernel, and the reconciler between them. */
class Node {
  readonly fake = new FakeNft();
  readonly cache = cacheOf({ services: [], slices: [] });
  objects: AllObjects = { services: [], slices: [] };
  /** The objects of each Service that there were: what is taken out may be refused, too. */
  readonly #past = new Map<ServiceName, string>();
  nodeContext: NodeContext = testNodeContext();
  reconciler = new Reconciler({
    cache: this.cache,
    nft: this.fake.nft,
    tables: this.fake.tables,
    chunkSize: 5,
    portion: 3,
  });
  /** Somebody changed the kernel during the last sync, and the reconciler was told. */
  isReported = false;
  /** Somebody changed the kernel since it was last seen to be right. */
  isDisturbed = false;
  /** Somebody may have changed the kernel since the reconciler last read it, and it was not told. */
  isTouched = false;

  async take(step: Step): Promise<void> {
    switch (step.kind) {
      case "objects":
        this.objects = step.objects;
        put(this.cache, step.objects);
        for (const name of this.cache.serviceNames()) this.#remember(name);
        return;
      case "context":
        this.nodeContext = step.nodeContext;
        return;
      case "interference":
        this.isTouched = true;
        return this.#interfere(step.transaction);
      case "sync":
        if (step.isFull) this.reconciler.requestFullSync("periodic");
        if (step.retries) this.reconciler.retryRefused();
        return await this.#syncWith(step.fault);
      case "clean up":
        return await this.reconciler.deleteStaleChains().catch(() => {});
      case "restart":
        this.reconciler = new Reconciler({
          cache: this.cache,
          nft: this.fake.nft,
          tables: this.fake.tables,
          chunkSize: 5,
          portion: 3,
        });
        for (const service of this.objects.services) this.cache.putService(service);
    }
  }

  /**
   * One sync, after which the kernel has the desired state unless it failed. @param refused what nft refuses
   */
  async sync(refused = ""): Promise<void> {
    this.isReported = false;
    const report = await this.reconciler.sync({
      nodeContext: this.nodeContext,
      services: this.cache.takeDirty(),
    });
    expect(report.refused.filter((key) => !this.#concerns(key, refused))).toEqual([]);
    if (!this.isDisturbed) expect(report.drift, "our own changes are no drift").toEqual([]);
    if (report.kind === "full") this.isTouched = false;
    if (this.isReported || this.isTouched) return;
    this.isDisturbed = false;
    const differences = diffRuleset(this.fake.kernel.ruleset, this.reconciler.state.ruleset);
    expect(differences.filter((one) => one.elements.length + writtenChains(one).length > 0)).toEqual([]);
  }

  /** Whether a refused text can occur in the rules of a service port. */
  #concerns(key: ServicePortKey, refused: string): boolean {
    if (refused === REFUSED_FAMILY) return key.startsWith("ip6 ");
    return refused !== "" && this.#past.get(serviceOf(key))?.includes(`"${refused}"`) === true;
  }

  #remember(name: ServiceName): void {
    const slices = this.cache.slices(name).map((one) => ({ ...one, endpoints: [...one.endpoints] }));
    const objects = [this.cache.service(name), slices];
    this.#past.set(name, `${this.#past.get(name) ?? ""}${JSON.stringify(objects)}`);
  }

  #interfere(transaction: Transaction): void {
    if (this.fake.kernel.ruleset.ip === undefined) return;
    this.fake.kernel.apply(transaction);
    this.isDisturbed = true;
  }

  #drift(): void {
    if (!this.fake.kernel.ruleset.ip?.sets.get("cluster-ips")?.elements.size) return;
    this.#interfere(command({ flush: { set: { ...table, name: "cluster-ips" } } }));
    this.isReported = true;
    this.reconciler.requestFullSync("drift");
  }

  async #syncWith(fault: Fault): Promise<void> {
    const { fake } = this;
    const before = fake.runs.length;
    fake.refuses = fault.kind === "refuses" ? fault.text : undefined;
    fake.before = (run) => {
      const isNow = fault.kind === "times out" && fake.runs.length === before + 1 + fault.run;
      fake.timesOut = isNow && (fault.isDone ? "at the end" : true);
      fake.broken = fault.kind === "prints nonsense" && run === "list" ? "Error: syntax error" : undefined;
      if (fault.kind === "drift" && run === "apply" && !this.isReported) this.#drift();
    };
    const { slices } = this.cache;
    if (fault.kind === "cannot be rendered") {
      this.cache.slices = () => {
        this.cache.slices = slices;
        throw Object.assign(new Error("a fault of our own"), { code: "FAULT" });
      };
    }
    try {
      await this.sync(fake.refuses);
    } catch (error) {
      if (fault.kind === "none" || !(error instanceof Error) || !("code" in error)) throw error;
    } finally {
      this.cache.slices = slices;
      fake.refuses = undefined;
      fake.timesOut = false;
      fake.broken = undefined;
      fake.before = () => {};
    }
  }
}

test("after any faults of nft and changes by others, the tables are those of a fresh start, no Service was wrongly refused, and no change of ours was drift", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(anyStep, { maxLength: 12, size: "max" }),
      fc.boolean(),
      async (steps, isOld) => {
        const node = new Node();
        node.fake.isOld = isOld;
        for (const step of steps) await node.take(step);
        node.reconciler.retryRefused();
        node.reconciler.requestFullSync("periodic");
        await node.sync();
        while (node.reconciler.state.hasStale) await node.sync();
        await node.reconciler.deleteStaleChains();
        expect([node.reconciler.quarantined.size, node.reconciler.excludedFamilies.size]).toEqual([0, 0]);
        const fresh = withoutStaleRanges(renderAll(node.objects, node.nodeContext)).state.ruleset;
        const families = new Set(node.nodeContext.map(({ family }) => family));
        const kernel = Object.values(node.fake.kernel.ruleset).filter(({ family }) => families.has(family));
        expect(textWithoutPlacement(Object.fromEntries(kernel.map((one) => [one.family, one])))).toBe(
          textWithoutPlacement(fresh),
        );
      },
    ),
    { numRuns: runs(40) },
  );
});

test("changes that are sent in portions end with the tables of a fresh start", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(anyObjects, fc.nat(3)), { minLength: 2, maxLength: 6 }),
      async (changes) => {
        const node = new Node();
        for (const [objects, syncs] of changes) {
          await node.take({ kind: "objects", objects });
          for (let n = 0; n < syncs; n++) await node.sync();
        }
        const { reconciler, nodeContext, cache } = node;
        let left = 1000;
        const waits = async () => {
          const { waiting } = await reconciler.sync({ nodeContext, services: cache.takeDirty() });
          return waiting.size > 0 || reconciler.state.hasStale;
        };
        while (await waits()) expect(left--).toBeGreaterThan(0);
        await reconciler.deleteStaleChains();
        expect(textWithoutPlacement(node.fake.kernel.ruleset)).toBe(
          textWithoutPlacement(withoutStaleRanges(renderAll(node.objects, nodeContext)).state.ruleset),
        );
      },
    ),
    { numRuns: runs(40) },
  );
});
