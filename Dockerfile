# syntax=docker/dockerfile:1

# The image of nft-proxy, for amd64 and arm64: docker buildx build --platform linux/amd64,linux/arm64 .
#
# Bases are pinned by tag. To pin them by content too, look up each index digest and append it to the tag:
#   docker buildx imagetools inspect debian:13-slim     ->   debian:13-slim@sha256:...
# A digest makes builds repeatable, but excludes Debian's security updates, so renew it with every release.

FROM --platform=$BUILDPLATFORM node:20.19-bookworm-slim AS build
WORKDIR /source
COPY package.json package-lock.json .npmrc ./
# .npmrc disables the packages' install scripts, because no package needs one.
RUN npm ci
COPY scripts scripts
COPY schemas schemas
COPY src src
RUN node scripts/build.mjs

# Debian 13 has Node 20.19, nft 1.1.3 (the oldest whose JSON is known to support our maps) and socat 1.8.0.
FROM debian:13-slim AS root
RUN apt-get update \
  && apt-get install --yes --no-install-recommends nodejs nftables socat \
  && rm -rf /var/lib/apt/lists/* /var/cache/apt/archives/* /var/log/*
COPY scripts/image-files.sh /usr/local/bin/
RUN sh /usr/local/bin/image-files.sh /image
RUN ["ln", "-s", "/usr/local/lib/nft-proxy/nft-proxy.mjs", "/image/usr/local/bin/nft-proxy"]

# The image contains the programs listed in scripts/image-files.sh, the libraries that they load and one file
# of ours. It has no shell and no package manager.
FROM scratch
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="nft-proxy" \
  org.opencontainers.image.description="A Kubernetes service proxy for nftables-only distributions" \
  org.opencontainers.image.version="${VERSION}" \
  org.opencontainers.image.licenses="Apache-2.0"

COPY --from=root /image /
COPY --from=build --chmod=0755 /source/dist/nft-proxy.js /usr/local/lib/nft-proxy/nft-proxy.mjs
COPY --from=build /source/dist/THIRD_PARTY_LICENSES /usr/share/doc/nft-proxy/THIRD_PARTY_LICENSES
COPY LICENSE /usr/share/doc/nft-proxy/LICENSE
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

# Heap limit of `run` and of the commands beside it, in MiB. The programs that it starts (nft, socat) need
# memory of their own in the same container, and the limit in deploy/base leaves room for them. A semi-space
# of 8 saves no CPU at the start with 10,000 Services, and permanently costs 8 MB.
ENV NODE_OPTIONS="--max-old-space-size=640 --max-semi-space-size=4"

# All threads share one malloc arena, because an arena of its own keeps the memory that a thread of node
# frees. Saves 8 MB.
ENV MALLOC_ARENA_MAX=1

# The kernel accepts rules only from root with CAP_NET_ADMIN. No other right of root is needed: drop all other
# capabilities and mount the root read-only, as deploy/base does.
USER 0:0

# For plain Docker. Kubernetes uses its own probe of /livez.
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s \
  CMD ["node", "--eval", "fetch('http://127.0.0.1:10256/livez').then(({ok}) => process.exit(ok ? 0 : 1), () => process.exit(1))"]

# Without a shell in between, signals reach node.
ENTRYPOINT ["node", "/usr/local/lib/nft-proxy/nft-proxy.mjs"]
CMD ["run"]
