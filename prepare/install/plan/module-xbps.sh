#!/bin/sh
# Prints a line for each kernel that would have no module of ZFS in the new system.
# usage: module-fits CACHE QUERY...
# CACHE has the downloaded packages, and QUERY is xbps-query with the index of their repository.
# bakeoff install wrote this script.
set -eu
cache=$1 modules='' built='' kernels='' headers=''
shift
for file in "$cache"/linux[0-9]*.xbps; do
	series=${file##*/}
	series=${series%.x86_64*.xbps}
	series=${series%-*}
	case $series in
	*-headers) type=headers ;;
	*-*) continue ;;
	*) type=kernel ;;
	esac
	version=$("$@" -p pkgver "$series") || continue
	# An interrupted download may have left older packages.
	case ${file##*/} in
	"$version".*) ;;
	*) continue ;;
	esac
	version=${version##*-}
	if [ $type = kernel ]; then kernels="$kernels $version"; else headers="$headers $version"; fi
done
fix="set kernel to an older series, such as linux6.12"
complete="apply the plan again when the mirror has kernel and headers of one version"
meta=$("$@" -f zfs | sed -n '\|^/usr/src/zfs-[^/]*/META$|p')
meta=$("$@" --cat="$meta" zfs)
