# The gateway alone: PostgreSQL and Redis are other containers (docker-compose.yml).
FROM python:3.12-slim AS build

ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /src

# The locked lists first: this layer changes only when they do. Packages beside the gateway (WebRTC) are not in the image.
COPY requirements/server.txt requirements/build.txt requirements/
RUN python -m venv /opt/build \
    && /opt/build/bin/pip install --require-hashes -r requirements/build.txt \
    && python -m venv /opt/gateway \
    && /opt/gateway/bin/pip install --require-hashes -r requirements/server.txt

COPY pyproject.toml README.md LICENSE ./
COPY openapi/gateway.json openapi/
COPY migrations migrations
COPY app app
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . \
    && /opt/gateway/bin/pip install --no-deps --no-index /wheels/*.whl \
    && /opt/gateway/bin/python -m compileall -q /opt/gateway/lib \
    && /opt/gateway/bin/pip uninstall --yes pip


FROM python:3.12-slim

RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin gateway
COPY --from=build /opt/gateway /opt/gateway

ENV PATH=/opt/gateway/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    LOG_FORMAT=json
WORKDIR /srv
USER 10001:10001
# HTTP, and gRPC where UBP_GRPC_PORT is 50051.
EXPOSE 8000 50051

HEALTHCHECK --interval=10s --timeout=3s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as r; r.build_opener(r.ProxyHandler({})).open(f\"http://127.0.0.1:{os.environ.get('PORT', '8000')}/health/live\", timeout=2)"]

ENTRYPOINT ["utcp-gateway"]
CMD ["serve", "--host", "0.0.0.0"]
