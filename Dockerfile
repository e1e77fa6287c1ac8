# Needs only this folder: docker build -t knowledge-search .
# A tag can be given to another image. To pin the one that you tested, add its digest, and renew it with each release:
#   docker buildx imagetools inspect python:3.13-slim-trixie --format '{{.Manifest.Digest}}'
#   docker build --build-arg PYTHON_IMAGE=python:3.13-slim-trixie@sha256:… -t knowledge-search .
ARG PYTHON_IMAGE=python:3.13-slim-trixie

FROM ${PYTHON_IMAGE} AS builder
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_ROOT_USER_ACTION=ignore
RUN python -m venv /opt/venv
WORKDIR /opt/knowledge

# Dependencies change rarely and are the largest part, so they have a separate layer.
COPY requirements.lock ./
COPY requirements ./requirements
RUN --mount=type=cache,target=/root/.cache/pip \
    awk -f requirements/locked.awk requirements/service.txt requirements.lock > /tmp/service.lock \
    && /opt/venv/bin/pip install --require-hashes --only-binary :all: -r /tmp/service.lock

# With `--build-arg OCR=1`, text of scanned pages and images is recognised; 250 MB more.
ARG OCR=
RUN --mount=type=cache,target=/root/.cache/pip \
    awk -f requirements/locked.awk requirements/ocr.txt requirements.lock > /tmp/ocr.lock \
    && if [ -n "$OCR" ]; then /opt/venv/bin/pip install --require-hashes --only-binary :all: -r /tmp/ocr.lock; fi

# The service's wheel contains the migrations; the build tools stay in this stage.
COPY pyproject.toml README.md LICENSE ./
COPY alembic ./alembic
COPY app ./app
COPY clients/python ./clients/python
RUN --mount=type=cache,target=/root/.cache/pip \
    sed -nE '/^(hatchling|packaging|pathspec|pluggy|tomlkit|trove-classifiers)==/,/[^\\]$/p' requirements.lock > /tmp/build.lock \
    && python -m venv /opt/build \
    && /opt/build/bin/pip install --require-hashes -r /tmp/build.lock \
    && /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /tmp/dist . ./clients/python \
    && /opt/venv/bin/pip install --no-deps --no-build-isolation /tmp/dist/*.whl \
    && /opt/venv/bin/pip uninstall --yes setuptools pip

FROM ${PYTHON_IMAGE}
RUN groupadd --system --gid 10001 knowledge \
    && useradd --system --uid 10001 --gid knowledge --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin knowledge \
    && install -d -o knowledge -g knowledge -m 0700 /var/lib/knowledge
COPY --from=builder /opt/venv /opt/venv
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONFAULTHANDLER=1 \
    KB_HOST=0.0.0.0 \
    KB_PORT=8000 \
    KB_DATA_DIR=/var/lib/knowledge
# An empty folder, so that no .env of the source tree is read; also the data folder when DATABASE_URL is not set.
WORKDIR /var/lib/knowledge
USER 10001:10001
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as r; r.build_opener(r.ProxyHandler({})).open('http://127.0.0.1:' + os.environ['KB_PORT'] + '/healthz', timeout=4)"]
ENTRYPOINT ["knowledge"]
CMD ["serve"]
