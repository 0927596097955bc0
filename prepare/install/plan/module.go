package plan

import (
	_ "embed" // of the scripts
	"path"
	"strings"

	"bakeoff/prepare/install/spec"
)

// The script of the step module-fits: moduleApt or moduleXbps reads the packages, and moduleFits
// compares kernels and ZFS.
var (
	//go:embed module-apt.sh
	moduleApt string
	//go:embed module-xbps.sh
	moduleXbps string
	//go:embed module-fits.sh
	moduleFits string
)

// modulesFit stops the installation before the disk is touched if a downloaded kernel would have no
// module of ZFS. reads is the part of the script that reads the packages, and programs are those that
// the script starts.
func (r *recipe) modulesFit(reads string, programs []string, args ...string) {
	file := r.downloads() + "/module-fits"
	r.write("module-script", "write a script that compares kernels and ZFS", "0755", file,
		strings.TrimSuffix(reads+moduleFits, "\n"))
	r.assert("module-fits", "see that each kernel will have a module of ZFS: without one it cannot mount the root",
		append([]string{"sh", file}, args...)...).nothing().Programs = programs
}

// archiveFits does the same without downloads, as far as the specification names a version of the kernel.
func (r *recipe) archiveFits() {
	kernel := strings.TrimPrefix(r.spec.Kernel, "linux-image-")
	if r.downloads() == "" && kernel[0] >= '0' && kernel[0] <= '9' {
		r.assert("module-fits", "see that the archive of modules has one for the kernel "+kernel, "tar", "-tf",
			r.spec.Modules.File).expect("dkms_main_tree/" + kernel + "/x86_64/module/zfs.ko").Local = true
	}
}

// Debian 12 keeps its OpenZFS. Debian 13 already got a newer one, which supports newer kernels, so a
// plan cannot know what it will have.
const (
	zfsOfBookworm   = "2.1.11"
	linuxOfBookworm = "6.2" // the newest series that this OpenZFS supports
)

// Remedies, which the script has too.
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
