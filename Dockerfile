# One executable in an image that holds nothing else: no shell, no Node, no root. Everything it keeps is in /data; a config is
# read from /etc/relay. The first stage must be a Debian with Node, npm and, for a smaller executable, `strip`.
ARG NODE_IMAGE=node:26

FROM ${NODE_IMAGE} AS build
WORKDIR /app
COPY package.json package-lock.json ./
COPY tools/node-runtime tools/node-runtime
COPY tools/openapi-types/package.json tools/openapi-types/package.json
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY cli cli
COPY config config
COPY core core
COPY dashboard dashboard
COPY docs docs
COPY examples examples
COPY plugins plugins
COPY relay.config.ts relay.config.ts
RUN npm run build -- --out /image/relay
# What the executable is linked to, with its licences, whom the system trusts, and a name for user 1000.
RUN mkdir -p /data /image/etc/relay \
 && cp --parents -L /etc/ssl/certs/ca-certificates.crt /image \
 && ldd /image/relay | grep -o '/[^ ]*' | xargs -I {} cp --parents -L {} /image \
 && find /usr/share/doc/libc6 /usr/share/doc/gcc-*-base -name copyright -exec cp --parents {} /image ';' \
 && echo 'relay:x:1000:1000::/data:/relay' > /image/etc/passwd \
 && echo 'relay:x:1000:' > /image/etc/group

FROM scratch
COPY --from=build /image /
COPY --from=build --chown=1000:1000 /data /data
COPY LICENSE /
ENV RELAY_HOST=0.0.0.0 RELAY_DATA_DIR=/data
# What a busy time took goes back to the system: see "Size" in docs/operate.md.
ENV MALLOC_ARENA_MAX=2 MALLOC_TRIM_THRESHOLD_=131072
WORKDIR /etc/relay
USER 1000:1000
VOLUME /data
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s CMD ["/relay", "status", "--ready"]
ENTRYPOINT ["/relay"]
CMD ["start"]
