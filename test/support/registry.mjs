// `serve PORT`: a container registry with one image, of two layers of some MB. `pull URL`: pulls that image
// as a container runtime does, and prints the digests and the number of connections as JSON.
import { createCipheriv, createHash } from "node:crypto";
import http from "node:http";

const [mode, argument] = process.argv.slice(2);
const digestOf = (bytes) => `sha256:${createHash("sha256").update(bytes).digest("hex")}`;

if (mode === "serve") serve(Number(argument));
else await pull(argument);

/** Returns pseudo-random bytes that are the same every time. */
function layer(size, key) {
  return createCipheriv("aes-128-ctr", Buffer.alloc(16, key), Buffer.alloc(16)).update(Buffer.alloc(size));
}

function serve(port) {
  const layers = [layer(6_000_000, 1), layer(3_000_017, 2)];
  const blobs = new Map(layers.map((bytes) => [digestOf(bytes), bytes]));
  const manifest = JSON.stringify({
    schemaVersion: 2,
    mediaType: "application/vnd.oci.image.manifest.v1+json",
    layers: [...blobs].map(([digest, { length }]) => ({
      mediaType: "application/vnd.oci.image.layer.v1.tar",
      digest,
      size: length,
    })),
  });
  const server = http.createServer({ keepAliveTimeout: 60_000 }, ({ url = "", headers }, response) => {
    const blob = blobs.get(url.replace("/v2/shop/web/blobs/", ""));
    const [, first, last] = /^bytes=(\d+)-(\d*)$/.exec(headers.range ?? "") ?? [];
    if (url === "/v2/") response.end("{}");
    else if (url === "/v2/shop/web/manifests/latest") response.end(manifest);
    else if (blob === undefined) response.writeHead(404).end();
    else if (first === undefined) response.writeHead(200, { "Content-Length": blob.length }).end(blob);
    else {
      const part = blob.subarray(Number(first), last === "" ? blob.length : Number(last) + 1);
      const range = `bytes ${first}-${Number(first) + part.length - 1}/${blob.length}`;
      response.writeHead(206, { "Content-Length": part.length, "Content-Range": range }).end(part);
    }
  });
  server.listen(port, "::", () => process.stdout.write("listening\n"));
}

async function pull(url) {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 2 });
  const sockets = new Set();
  const get = (path, headers = {}) =>
    new Promise((resolve, reject) => {
      const request = http.get(`${url}${path}`, { agent, headers }, (response) => {
        sockets.add(response.socket);
        const chunks = [];
        response.on("data", (chunk) => chunks.push(chunk));
        response.on("end", () => resolve({ status: response.statusCode, body: Buffer.concat(chunks) }));
        response.on("error", reject);
      });
      request.on("error", reject);
    });
  const api = await get("/v2/");
  const { layers } = JSON.parse((await get("/v2/shop/web/manifests/latest")).body.toString());
  const whole = await Promise.all(layers.map(({ digest }) => get(`/v2/shop/web/blobs/${digest}`)));
  const resumed = await Promise.all(
    layers.map(async ({ digest, size }) => {
      const path = `/v2/shop/web/blobs/${digest}`;
      const parts = [
        await get(path, { Range: `bytes=0-${size - 1_000_001}` }),
        await get(path, { Range: `bytes=${size - 1_000_000}-` }),
      ];
      return parts.every(({ status }) => status === 206)
        ? Buffer.concat(parts.map(({ body }) => body))
        : Buffer.alloc(0);
    }),
  );
  const result = {
    status: api.status,
    wanted: layers.map(({ digest }) => digest),
    pulled: whole.map(({ body }) => digestOf(body)),
    resumed: resumed.map(digestOf),
    connections: sockets.size,
  };
  process.stdout.write(`${JSON.stringify(result)}\n`);
  agent.destroy();
}
