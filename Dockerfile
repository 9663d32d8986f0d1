# The image of the GitHub Action. `scripts/build-image.sh` builds it, also without a Docker daemon.
FROM python:3.13-slim-trixie@sha256:9d2e5553305c7c7b0097999bb17187c69b921ccd6bc9d40e4bb5ebe652c00285 AS build

ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_NO_INPUT=1
WORKDIR /src
COPY requirements ./requirements
# What runs in a job needs no installer: pip and the build backend stay in an environment apart.
RUN python3 -m venv /opt/build \
    && /opt/build/bin/pip install --require-hashes --requirement requirements/build.txt \
    && python3 -m venv --without-pip /opt/skillopt-ci \
    && /opt/build/bin/pip --python /opt/skillopt-ci/bin/python3 install --require-hashes \
    --requirement requirements/run.txt
COPY pyproject.toml README.md LICENSE ./
COPY examples ./examples
COPY skillopt_ci ./skillopt_ci
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /dist . \
    && /opt/build/bin/pip --python /opt/skillopt-ci/bin/python3 install --no-deps /dist/*.whl

FROM python:3.13-slim-trixie@sha256:9d2e5553305c7c7b0097999bb17187c69b921ccd6bc9d40e4bb5ebe652c00285

# Debian keeps no older versions that could be pinned; the base image's tag pins the suite.
# hadolint ignore=DL3008
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends git \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/skillopt-ci /opt/skillopt-ci
# SAFEPATH: the working folder is the user's checkout, and no module of it may pass for one of ours.
ENV PATH=/opt/skillopt-ci/bin:$PATH \
    PYTHONSAFEPATH=1 \
    PYTHONUNBUFFERED=1
# No USER: the runner mounts a workspace that only root can be sure to write to.
ENTRYPOINT ["/opt/skillopt-ci/bin/skillopt-ci-action"]
