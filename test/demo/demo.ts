// The main job with no cluster at all: a node in a box, the recorded town's rules, real connections.
import { relative } from "node:path";
import { fileURLToPath } from "node:url";
import { messageOf } from "../../src/base/errors.ts";
import { createLab, type Lab } from "../support/lab/lab.ts";
import { outcomeOf, type Probe } from "../support/lab/outcome.ts";
import { loadScenario } from "../support/lab/scenario.ts";
import { answerLines, commandLines, firstLines } from "./report.ts";

interface Showcase {
  readonly title: string;
  readonly probe: Probe;
}

const connections = 60;
const tcp = { proto: "tcp", n: connections } as const;
const cart = { ...tcp, to: "10.96.1.2", port: 80, sticky: true } as const;

const showcases: readonly Showcase[] = [
  {
    title: "ClusterIP 10.96.1.1:80 (shop/frontend), from a pod of this node",
    probe: { ...tcp, id: "cluster-ip", from: "pod3", to: "10.96.1.1", port: 80 },
  },
  {
    title: "NodePort 192.0.2.2:30080 (shop/frontend), from outside the cluster",
    probe: { ...tcp, id: "node-port", from: "ext", to: "192.0.2.2", port: 30080 },
  },
  {
    title: "ClusterIP 10.96.1.2:80 (shop/cart, session affinity), from pod2",
    probe: { ...cart, id: "sticky-2", from: "pod2" },
  },
  {
    title: "ClusterIP 10.96.1.2:80 (shop/cart, session affinity), from pod4",
    probe: { ...cart, id: "sticky-4", from: "pod4" },
  },
  {
    title: "ClusterIP 10.96.1.2:80 (shop/cart, session affinity), from pod5",
    probe: { ...cart, id: "sticky-5", from: "pod5" },
  },
];

const project = fileURLToPath(new URL("../../", import.meta.url));
const say = (...lines: readonly string[]): void => console.log(lines.join("\n"));

async function nftProxy(lab: Lab, argv: readonly string[]): Promise<string> {
  const options = ["--hostname-override=node-1", "--cluster-cidr=10.244.0.0/16,fd00:244::/32"];
  const words = [...argv, ...options, "--nodeport-addresses=primary"];
  say("", ...commandLines(["nft-proxy", ...words]));
  const result = await lab.exec([process.execPath, "dist/nft-proxy.js", ...words]);
  if (result.exitCode !== 0) throw new Error(`nft-proxy ended with ${result.exitCode}: ${result.stderr}`);
  return result.stdout;
}

async function showConnections(lab: Lab): Promise<boolean> {
  say("", `${connections} real connections each; who answered:`);
  const tallies = await lab.observe(showcases.map(({ probe }) => probe));
  let allAnswered = true;
  for (const { title, probe } of showcases) {
    const tally = tallies.get(probe.id) ?? {};
    const { result, distinct } = outcomeOf(probe, tally);
    allAnswered &&= result === "ok" && (distinct ?? 1) === 1;
    say("", title, ...answerLines(tally));
  }
  return allAnswered;
}

async function demo(): Promise<boolean> {
  const { objects } = await loadScenario("town");
  const from = relative(project, objects);
  say("A node in a box: a node with 6 pods, another node, a client outside.");
  const lab = await createLab();
  try {
    say(...firstLines(await nftProxy(lab, ["apply", `--from=${from}`]), 12));
    const allAnswered = await showConnections(lab);
    say(
      ...firstLines(
        await nftProxy(lab, ["dump", "--output=nft", "--service=shop/frontend", `--from=${from}`]),
        24,
      ),
    );
    return allAnswered;
  } finally {
    await lab.close();
  }
}

process.chdir(project);
try {
  const allAnswered = await demo();
  process.exitCode = allAnswered ? 0 : 1;
  say(
    "",
    allAnswered
      ? "Every connection was answered, each client of shop/cart by one endpoint."
      : "See above: not as it should be.",
  );
} catch (error) {
  console.error(`demo: ${messageOf(error)}`);
  process.exitCode = 1;
}
