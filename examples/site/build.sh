#!/bin/sh
# Measures three examples and publishes them as a web site with a post about each.
#
#   examples/site/build.sh FOLDER [FLAG…]     FLAGs are those of bakeoff run
#
# Without flags it takes about half an hour. With --profile ci it takes minutes, and
# decides nothing. FOLDER/output is the site, FOLDER/output/runs/ its index of runs.
set -eu
[ $# -gt 0 ] || { echo "usage: $0 FOLDER [FLAG…]" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
bakeoff=$here/../../bakeoff
to=$1
shift
mkdir -p "$to/src" "$to/pages" "$to/runs"
cp "$here/config.sh.local" "$to/config.sh.local"
for lab in quick technologies static-web; do
	code=0
	"$bakeoff" run "$here/../$lab" --out "$to/runs" "$@" || code=$?
	case $code in 0 | 4) ;; *) exit "$code" ;; esac # 4: some cells are missing, and the page says which
	run=$(find "$to/runs" -maxdepth 1 -name "*-$lab" | sort | tail -n 1)
	sed -e "s/@RUN@/$(basename "$run")/g" -e "s/@DATE@/$(date '+%Y-%m-%d %H:%M:%S %z')/" "$here/$lab.md" >"$to/src/$lab.md"
done
"$bakeoff" site build "$to"
echo "posts: $to/output/index.html; runs: $to/output/runs/index.html"
