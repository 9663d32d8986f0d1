# The image of the GitHub Action. `scripts/build-image.sh` builds it, also without a Docker daemon.
FROM python:3.13-slim-trixie AS build

ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_NO_INPUT=1
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY examples ./examples
COPY skillopt_ci ./skillopt_ci
# Without pip inside: what runs in a job needs no installer.
RUN python3 -m venv --without-pip /opt/skillopt-ci \
    && python3 -m pip --python /opt/skillopt-ci/bin/python3 install '.[anthropic,azure]'

FROM python:3.13-slim-trixie

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
