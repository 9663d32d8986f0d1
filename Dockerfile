# The image of the GitHub Action. `scripts/build-image.sh` builds it, also without a Docker daemon,
# and holds it to 300 MB.
FROM python:3.13-slim-trixie@sha256:9d2e5553305c7c7b0097999bb17187c69b921ccd6bc9d40e4bb5ebe652c00285 AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_NO_INPUT=1 \
    UV_LINK_MODE=copy \
    UV_NO_CACHE=1 \
    UV_SYSTEM_CERTS=1 \
    PYC_INVALIDATION_MODE=UNCHECKED_HASH
# hadolint ignore=DL3008
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends binutils
WORKDIR /src
COPY requirements ./requirements
# What runs in a job needs no installer: pip, uv and the build backend stay in an environment apart.
RUN python3 -m venv /opt/build \
    && /opt/build/bin/pip install --require-hashes --no-compile \
    --requirement requirements/uv.txt --requirement requirements/build.txt \
    && python3 -m venv --without-pip /opt/skillopt-ci \
    && /opt/build/bin/uv pip install --python /opt/skillopt-ci --require-hashes --compile-bytecode \
    --requirement requirements/run.txt \
    && find /opt/skillopt-ci/lib -name '*.so*' -exec strip --strip-unneeded {} +
COPY pyproject.toml README.md LICENSE ./
COPY skillopt_ci ./skillopt_ci
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /dist . \
    && /opt/build/bin/uv pip install --python /opt/skillopt-ci --no-deps --compile-bytecode /dist/*.whl

FROM python:3.13-slim-trixie@sha256:9d2e5553305c7c7b0097999bb17187c69b921ccd6bc9d40e4bb5ebe652c00285 AS root

# Debian keeps no older versions that could be pinned; the base image's tag pins the suite. Half of
# what git brings is Perl's library, for `git send-email` and the like, and servers.
# hadolint ignore=DL3008
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends git \
    && dpkg --purge --force-depends git-man liberror-perl libperl5.40 perl perl-modules-5.40 \
    && for name in daemon http-backend http-fetch http-push imap-send shell; do \
         rm "/usr/lib/git-core/git-$name"; done \
    && rm -rf /usr/lib/git-core/scalar /var/lib/apt/lists/* /var/cache/apt/* /var/log/*
COPY --from=build /opt/skillopt-ci /opt/skillopt-ci
# The base image has its standard library without byte code: what a job imports is compiled here.
RUN /opt/skillopt-ci/bin/python3 -c 'import anthropic, openai, skillopt_ci.action.main' \
    && rm -rf /usr/local/lib/python3*/site-packages/pip* /usr/share/python-wheels \
    && for name in ensurepip idlelib lib2to3 pydoc_data tkinter turtledemo; do \
         rm -rf /usr/local/lib/python3*/"$name" /usr/lib/python3*/"$name"; done

# In one layer, nothing that was removed is kept below.
FROM scratch
# hadolint ignore=DL3067
COPY --from=root / /
# SAFEPATH: the working folder is the user's checkout, and no module of it may pass for one of ours.
ENV PATH=/opt/skillopt-ci/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    LANG=C.UTF-8 \
    PYTHONSAFEPATH=1 \
    PYTHONUNBUFFERED=1
# No USER: the runner mounts a workspace that only root can be sure to write to.
ENTRYPOINT ["/opt/skillopt-ci/bin/skillopt-ci-action"]
