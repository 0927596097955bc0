#!/bin/sh
# Keeps two EFI system partitions (ESPs) in step, of which one may be missing.
# usage: esp-sync [--mount|--start]
#
# If only the second ESP is there, it is mounted in place of the first, where updates write.
# After an update, it is the newer one: when the first is back, the first is made like it.
# Otherwise the second is made like the first. --mount only mounts. --start, when the system
# starts, also copies. Each file is copied under another name, compared and then renamed, so
# that a loss of power leaves the old file or the new one.
# bakeoff install wrote this script.
set -eu
first=${ESP_FIRST:-/boot/efi}
second=${ESP_SECOND:-/boot/efi2}
newer=${ESP_STATE:-/var/lib/esp-sync}/second-is-newer
when=${1:-}
if ! mountpoint -q "$first" && mountpoint -q "$second"; then
	mount --bind "$second" "$first"
fi
[ "$when" != --mount ] || exit 0
alone=
if ! mountpoint -q "$first"; then
	echo "esp-sync: neither $first nor $second is mounted; nothing was copied" >&2
	exit 0 # the update that started this script must not fail when a disk is gone
elif ! mountpoint -q "$second"; then
	alone=$first
elif [ "$first" -ef "$second" ]; then
	alone=$second
fi
if [ "$alone" ]; then
	echo "esp-sync: only the ESP of $alone is there; nothing was copied" >&2
	[ "$when" != --start ] || exit 0
	mkdir -p "${newer%/*}"
	if [ "$alone" = "$second" ]; then : >"$newer"; else rm -f "$newer"; fi
	sync
	exit 0
fi
from=$first to=$second
if [ -e "$newer" ]; then from=$second to=$first; fi
if [ ! -d "$from/EFI" ]; then
	[ -d "$to/EFI" ] || exit 0 # no loader is installed yet
	echo "esp-sync: $from has no folder EFI; nothing was copied" >&2
	exit 1
fi
cd "$from"
find . -type d | while IFS= read -r dir; do mkdir -p "$to/$dir"; done
find . -type f | while IFS= read -r file; do
	cmp -s "$file" "$to/$file" && continue
	cp "$file" "$to/$file.new"
	sync
	cmp "$file" "$to/$file.new"
	mv -f "$to/$file.new" "$to/$file"
done
cd "$to"
find . -depth -mindepth 1 | while IFS= read -r name; do
	[ -e "$from/$name" ] || rm -rf "./$name"
done
sync
rm -f "$newer"
