value() { printf '%s\n' "$meta" | sed -n "s/^$1: *//p"; }
zfs=$(value Version) most=$(value Linux-Maximum)
case $most in
[0-9]*.[0-9]*) ;;
*)
	echo "module-fits: the package of OpenZFS $zfs does not say which kernels it supports" >&2
	exit 1
	;;
esac
case ${modules##*/} in
"" | "zfs-$zfs.dkms.tar.gz") ;;
*)
	echo "dkms would not use ${modules##*/}: the mirror has OpenZFS $zfs; set modules to an archive of this version," \
		"and make another plan"
	exit 0
	;;
esac
[ -n "$kernels" ] || echo "no kernel is among the packages: set kernel to another package, and make another plan"
for kernel in $kernels; do
	minor=${kernel#*.}
	minor=${minor%%[!0-9]*}
	if printf '%s\n' "$built" | grep -q "/$kernel/.*/zfs\.ko"; then
		continue
	elif [ -n "$modules" ]; then
		echo "${modules##*/} has no module for the kernel $kernel, only for" \
			$(printf '%s\n' "$built" | sed -n 's|.*/\([^/]*\)/[^/]*/module/zfs\.ko.*|\1|p')"; set kernel to that" \
			"kernel, set modules to an archive for this kernel, or leave out modules, and make another plan"
	elif [ "${kernel%%.*}" -gt "${most%%.*}" ] ||
		{ [ "${kernel%%.*}" -eq "${most%%.*}" ] && [ "${minor:-0}" -gt "${most#*.}" ]; }; then
		echo "OpenZFS $zfs supports Linux up to $most: dkms builds no module for the kernel $kernel; $fix, and" \
			"make another plan"
	elif ! printf '%s\n' $headers | grep -qxF "$kernel"; then
		echo "the headers of the kernel $kernel are missing: dkms builds no module; $complete"
	fi
done
