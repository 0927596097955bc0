#!/bin/sh
# Builds one program with glibc and with musl, and puts each into a root file system of
# its own: the program, the library and its loader, and nothing else. The compiler and
# its flags are the same.
set -e
cd "$(dirname "$0")"
for libc in glibc musl; do
	cc=gcc
	test $libc = glibc || cc=musl-gcc
	rm -rf build/$libc
	mkdir -p build/$libc/bin build/$libc/etc
	$cc -O2 -o build/$libc/bin/libc libc.c
	echo "$libc" > build/$libc/etc/libc
	loader=$(readelf -l build/$libc/bin/libc | sed -n 's/.*interpreter: \(.*\)]/\1/p')
	libs=$loader
	test $libc = musl || libs="$loader $(ldd build/$libc/bin/libc | sed -n 's/.*=> \(\/[^ ]*\).*/\1/p')"
	for f in $libs; do # of musl, the loader is the library
		mkdir -p "build/$libc$(dirname "$f")"
		cp -L "$f" "build/$libc$f"
	done
	tar -C build/$libc --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf build/$libc.tar .
done
