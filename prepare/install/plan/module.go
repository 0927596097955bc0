package plan

import (
	"path"
	"strings"

	"bakeoff/prepare/install/spec"
)

// Debian 12 keeps its OpenZFS. Debian 13 already got a newer one, which supports newer kernels, so a
// plan cannot know what it will have.
const (
	zfsOfBookworm   = "2.1.11"
	linuxOfBookworm = "6.2" // the newest series that this OpenZFS supports
)

// Remedies.
const (
	otherKernel = "set kernel to an older kernel, take kernel and ZFS from one suite, or set modules to an archive for " +
		"this kernel"
	otherArchive = "set modules to an archive of this version"
)

// modules refuses a kernel that would have no module of ZFS, if the specification alone shows it. A
// mirror with a key of its own, or an archive of the base system, may have another OpenZFS.
func (r *refusals) modules(s *spec.Spec) {
	if s.Recipe != "debian-zfs" || s.Release != "bookworm" || s.MirrorKey != "" || s.Base.File != "" {
		return
	}
	if file := path.Base(s.Modules.File); s.Modules.File != "" {
		if file != "zfs-"+zfsOfBookworm+".dkms.tar.gz" {
			r.add(otherArchive, "dkms would not use %s: Debian 12 has OpenZFS %s", file, zfsOfBookworm)
		}
		return
	}
	for _, p := range append([]string{s.Kernel}, s.Packages...) {
		if kernel, ok := strings.CutPrefix(p, "linux-image-"); ok && older(linuxOfBookworm, kernel) {
			r.add(otherKernel, "OpenZFS %s of Debian 12 supports Linux up to %s: dkms builds no module for the kernel %s",
				zfsOfBookworm, linuxOfBookworm, kernel)
		}
	}
}
