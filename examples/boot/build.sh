#!/bin/sh
# Builds the guest of ramdisk.yaml and host-clock.yaml into a folder: the service agent
# as a RAM disk and as a disk, with its kernel, and the RAM disk without compression and
# in three. It needs root, and gzip, zstd and xz.
set -e
to=${1:?usage: build.sh FOLDER}
cd "$(dirname "$0")/../.."
./bakeoff image build services/agent --output "$to"
cd "$to"
zstd -q -d -f agent.ram -o agent.cpio
gzip -9 -n -k -f agent.cpio
zstd -q -19 -f agent.cpio
xz -k -f --check=crc32 agent.cpio # Linux knows no other checksum
