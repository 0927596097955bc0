#!/bin/sh
# Builds both versions of the program. They need nothing of the environments in which
# they run: no library, no loader.
set -e
cd "$(dirname "$0")"
CGO_ENABLED=0 go build -trimpath -buildvcs=false -o build/v1 .
CGO_ENABLED=0 go build -trimpath -buildvcs=false -tags v2 -o build/v2 .
