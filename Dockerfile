# One file, a target per program:  docker build --target kserve-controller -t serveplane/kserve-controller .
# In each of the controllers' images /manager is that program, so KServe's own manifests start ours by changing only the image.
ARG PYTHON=3.13-slim

FROM python:${PYTHON} AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src src
COPY config config
ARG EXTRAS=""
RUN python -m venv /opt/serveplane \
 && /opt/serveplane/bin/pip install --no-cache-dir --compile ".${EXTRAS}" \
 && /opt/serveplane/bin/python -m compileall -q /opt/serveplane/lib

FROM build AS build-models
RUN /opt/serveplane/bin/pip install --no-cache-dir --compile ".[sklearn,skops,xgboost,lightgbm,onnx,grpc]"

FROM python:${PYTHON} AS base
ENV PATH=/opt/serveplane/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
WORKDIR /

FROM base AS controller
COPY --from=build /opt/serveplane /opt/serveplane

FROM controller AS kserve-controller
COPY --chmod=755 scripts/manager/kserve /manager
ENTRYPOINT ["/manager"]

FROM controller AS llmisvc-controller
COPY --chmod=755 scripts/manager/llmisvc /manager
ENTRYPOINT ["/manager"]

FROM controller AS kserve-localmodel-controller
COPY --chmod=755 scripts/manager/localmodel /manager
ENTRYPOINT ["/manager"]

FROM controller AS kserve-localmodelnode-agent
COPY --chmod=755 scripts/manager/localmodelnode /manager
ENTRYPOINT ["/manager"]

FROM base AS storage-initializer
COPY --from=build /opt/serveplane /opt/serveplane
ENTRYPOINT ["serveplane", "storage-initializer"]

FROM base AS modelserver
COPY --from=build-models /opt/serveplane /opt/serveplane
ENTRYPOINT ["serveplane", "modelserver"]
