#!/bin/sh
# Makes the second EFI system partition like the first. Each file is copied under another
# name, compared and then renamed, so that a loss of power leaves the old file or the new one.
# bakeoff install wrote this script.
set -eu
from=${1:-/boot/efi}
to=${2:-/boot/efi2}
for dir in "$from" "$to"; do
	if ! mountpoint -q "$dir"; then
		echo "esp-sync: $dir is not mounted; nothing was copied" >&2
		exit 0 # the update that started this script must not fail when a disk is gone
	fi
done
if [ ! -d "$from/EFI" ]; then
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
