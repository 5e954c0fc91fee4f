# The embedded default as a container: one process, not root, everything it keeps in /data.
ARG NODE_IMAGE=node:26-slim

FROM ${NODE_IMAGE} AS build
WORKDIR /app
COPY package.json package-lock.json ./
COPY tools/node-runtime/package.json tools/node-runtime/package.json
RUN npm ci --omit=dev --ignore-scripts --no-audit --no-fund && mkdir /data
COPY core core
COPY plugins plugins
COPY config config
COPY LICENSE ./

FROM ${NODE_IMAGE}
ENV NODE_ENV=production RELAY_HOST=0.0.0.0 RELAY_DATA_DIR=/data
WORKDIR /app
COPY --from=build /app /app
COPY --from=build --chown=1000:1000 /data /data
USER 1000:1000
VOLUME /data
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s CMD ["node", "core/cli/relay.mjs", "status"]
ENTRYPOINT ["node", "core/cli/relay.mjs"]
CMD ["start"]
