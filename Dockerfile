# One image for every process of Reckoner; docker-compose.yml says which one runs what. Settings come from the
# environment alone, and nothing of an instance (var/, .env) is in it: .dockerignore lets in only what is named there.
FROM python:3.12-slim

# cpu, or cuda: the package index's own torch for Linux is the CUDA build, several gigabytes.
ARG TORCH=cpu
ARG TORCH_CPU_INDEX=https://download.pytorch.org/whl/cpu

ENV PYTHONUNBUFFERED=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1

# Walls for untrusted code; the container has to allow user namespaces too (docs/operations.md).
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends bubblewrap && rm -rf /var/lib/apt/lists/*

# A layer of its own: code changes more often than requirements.
WORKDIR /app
COPY LICENSE ./
COPY requirements ./requirements
RUN case "$TORCH" in \
      cpu) index="--extra-index-url $TORCH_CPU_INDEX" ;; \
      cuda) index="" ;; \
      *) echo "TORCH=$TORCH: give cpu or cuda" >&2; exit 1 ;; \
    esac \
    && pip install $index --require-hashes -r requirements/base.txt -r "requirements/$TORCH.txt" -r requirements/text.txt -r requirements/export.txt

# A fresh named volume takes over the folders and their owner from here.
RUN useradd --system --uid 10001 --create-home --shell /usr/sbin/nologin reckoner \
    && install -d -o reckoner -g reckoner -m 0700 /var/lib/reckoner /var/lib/reckoner/secrets \
       /var/lib/reckoner/artifacts /var/lib/reckoner/runs /var/lib/reckoner/run

COPY manage.py ./
COPY sandbox ./sandbox
COPY workspaces ./workspaces
COPY jobs ./jobs
COPY models_registry ./models_registry
COPY decisions ./decisions
COPY training ./training
COPY project ./project
COPY templates ./templates
COPY static ./static
# Here rather than at the first start, where the user may not write to /app.
RUN python -m compileall -q .

USER reckoner
