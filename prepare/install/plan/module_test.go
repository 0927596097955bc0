package plan

import (
	"slices"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/prepare/install/spec"
)

// TestModulesRefused: a plan refuses a kernel that would have no module of ZFS, where the specification
// shows it, in the words of the script.
func TestModulesRefused(t *testing.T) {
	const sum = ", sha256: ba3044dcb8173aec2112a32d96913758c5f3fc7f542ae0356ab35ecc7de99c89}\n"
	const bpo = "kernel: linux-image-6.12.9+bpo-amd64\n"
	const builds = "OpenZFS 2.1.11 of Debian 12 supports Linux up to 6.2: dkms builds no module for the kernel "
	for _, c := range []struct{ release, more, want, fix string }{
		{"bookworm", "", "", ""},
		{"bookworm", "kernel: linux-image-6.1.0-50-amd64\n", "", ""},
		{"bookworm", bpo, builds + "6.12.9+bpo-amd64", otherKernel},
		{"bookworm", "packages: [vim, linux-image-6.3-rt-amd64]\n", builds + "6.3-rt-amd64", otherKernel},
		{"bookworm", bpo + "mirror_key: /root/mirror.asc\n", "", ""},
		{"bookworm", bpo + "base: {file: /root/base.tar" + sum, "", ""},
		{"bookworm", bpo + "modules: {file: /root/zfs-2.1.11.dkms.tar.gz" + sum, "", ""},
		{"bookworm", "modules: {file: /root/zfs-2.3.2.dkms.tar.gz" + sum,
			"dkms would not use zfs-2.3.2.dkms.tar.gz: Debian 12 has OpenZFS 2.1.11", otherArchive},
		{"trixie", bpo, "", ""},
		{"trixie", "modules: {file: /root/zfs-2.4.0.dkms.tar.gz" + sum, "", ""},
	} {
		s, err := spec.Parse("install.yaml", []byte("schema: bakeoff/install/v1\nrecipe: debian-zfs\nrelease: "+c.release+
			"\ndisk: /dev/disk/by-id/nvme-Example_SSD_1TB_S4EWNX0\nhostname: box\nsecrets: {pool: prompt, root: prompt}\n"+
			c.more))
		if err != nil {
			t.Fatal(err)
		}
		_, facts := article(t)
		_, err = New(s, facts)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(fault.Fix(err), c.fix)) {
			t.Errorf("%s, %s%v, fix %s; want %q", c.release, c.more, err, fault.Fix(err), c.want)
		}
	}
	script := moduleApt + moduleFits
	for _, words := range []string{otherKernel, otherArchive, "dkms would not use ", " supports Linux up to ",
		"dkms builds no module for the kernel "} {
		if !strings.Contains(script, words) {
			t.Errorf("the script does not say %q", words)
		}
	}
}

// TestModuleFitsFirst: kernel and ZFS are compared when both were downloaded or verified, and before the
// first step that destroys something.
func TestModuleFitsFirst(t *testing.T) {
	for name, before := range map[string]string{"article": "download", "mirror": "download", "debian12": "download",
		"debian13": "download", "grub": "download", "netbsd": "verify-modules.tar.xz"} {
		s, facts := golden(t, name)
		p := mustPlan(t, s, facts)
		index := func(id string) int { return slices.IndexFunc(p.Steps, func(s Step) bool { return s.ID == id }) }
		at, first := index("module-fits"), slices.IndexFunc(p.Steps, func(s Step) bool { return s.Destroys != "" })
		if at < 0 || at < index(before) || at > first || !p.Steps[at].Local {
			t.Errorf("%s: step %d compares, %d has the files, %d destroys", name, at, index(before), first)
		}
		if name == "netbsd" {
			continue
		}
		s.Downloads = "none"
		if mustPlan(t, s, facts).Step("module-fits") != nil {
			t.Errorf("%s: nothing was downloaded that could be compared", name)
		}
	}
}
