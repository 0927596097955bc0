package preflight

import (
	"strings"
	"testing"

	"bakeoff/reach/conn/local"
	"bakeoff/reach/system"
	"bakeoff/reach/system/systemtest"

	"bakeoff/base/fault"
	"bakeoff/base/unit"
	"bakeoff/lab/manifest"
	"bakeoff/provision/driver"
)

// A contender that asks for more CPUs or memory than there are is refused with
// the place where it does, and what the driver said against it is said first.
func TestEnough(t *testing.T) {
	ok := driver.Availability{OK: true, Facts: map[string]string{"version": "1"}}
	at := map[string]string{"cpus": "lab.yaml:5:30", "memory": "lab.yaml:6:12"}
	for _, tt := range []struct {
		what   string
		driver driver.Availability
		asks   manifest.Contender
		memory unit.Bytes
		want   string
	}{
		{"all there is", ok, manifest.Contender{CPUs: 2, Memory: 4 * unit.GiB}, 4 * unit.GiB, ""},
		{"one CPU too many", ok, manifest.Contender{CPUs: 3}, unit.GiB,
			"it asks for 3 CPUs, but its host has 2; write cpus: 2 or less"},
		{"the same, out of a file", ok, manifest.Contender{CPUs: 3, Where: at}, unit.GiB,
			"it asks for 3 CPUs (lab.yaml:5:30), but its host has 2; write cpus: 2 or less"},
		{"a byte too much", ok, manifest.Contender{CPUs: 1, Memory: unit.GiB, Where: at}, unit.GiB - 1,
			"it asks for 1GiB of memory (lab.yaml:6:12), but its host has 1023MiB; write memory: 1023MiB or less"},
		{"more than any machine has", ok, manifest.Contender{CPUs: 1, Memory: 9999 << 40, Where: at}, 24 * unit.GiB,
			"it asks for 9999TiB of memory (lab.yaml:6:12), but its host has 24GiB; write memory: 24GiB or less"},
		{"memory that nobody knows", ok, manifest.Contender{CPUs: 1, Memory: 9999 << 40}, 0, ""},
		{"what is not installed", driver.Availability{Reason: "crun is not installed"}, manifest.Contender{CPUs: 3}, unit.GiB,
			"crun is not installed"},
	} {
		got := Enough(tt.driver, tt.asks, 2, tt.memory)
		if got.OK != (tt.want == "") || !got.OK && got.String() != tt.want {
			t.Errorf("%s: %v, %q, want %q", tt.what, got.OK, got.String(), tt.want)
		}
	}
}

// Somebody who typed a flag reads the name of the flag, and not the key of a lab file.
func TestRemediesNameTheFlag(t *testing.T) {
	where := map[string]string{"cpus": "--cpus", "memory": "lab.yaml:1:2"}
	for want, asks := range map[string]manifest.Contender{
		"write --cpus 2 or less":     {CPUs: 99, Where: where},
		"write memory: 1GiB or less": {CPUs: 1, Memory: 2 * unit.GiB, Where: where},
	} {
		if got := inFlags(Enough(driver.Availability{OK: true}, asks, 2, unit.GiB), asks); got.Fix != want {
			t.Errorf("%q, want %q", got.Fix, want)
		}
	}
	// An option of a driver has the flag --option.
	option := manifest.Contender{Where: map[string]string{"machine": "--option machine="}}
	if got := inFlags(driver.Availability{Fix: "write machine: q35"}, option); got.Fix != "write --option machine=q35" {
		t.Errorf("%q", got.Fix)
	}
}

// What a contender is made from is looked at before anything starts: a folder
// must be there, on its host, and anything else must be an image that can be
// made.
func TestImagesAreCheckedBeforehand(t *testing.T) {
	jail := driver.Doc{Image: true, Folder: true}
	there := t.TempDir()
	for _, c := range []struct {
		doc         driver.Doc
		image, want string
	}{
		{jail, there, ""},
		{jail, "", ""},
		{jail, "debian:bookworm", ""},
		{jail, there + "/none", there + "/none: no such file or directory; name a folder on the host that contains a root " +
			"file system"},
		{driver.Doc{Image: true}, there, "write rootfs:" + there},
		{driver.Doc{Image: true}, "debian:12", "write debian:SUITE"},
		{driver.Doc{Image: true}, "disk:/a.raw", "disk of a machine, but the driver starts no machines; use the driver qemu"},
		{driver.Doc{Image: true, Kernel: true}, "disk:/a.raw", ""},
		{driver.Doc{}, "", ""},
	} {
		err := checkImage(t.Context(), local.Conn{}, c.doc, manifest.Contender{Image: c.image})
		if c.want == "" && err != nil || c.want != "" &&
			(!fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("image %q: %v, want %q", c.image, err, c.want)
		}
	}
}

// The remedy of a driver has the commands of the host's system.
func TestTranslate(t *testing.T) {
	alpine := installerOf(t.Context(), runs("Linux", "ID=alpine\n"))
	a := driver.Availability{Reason: "not installed: crun", Programs: []string{"crun"}, Packages: []string{"crun"},
		Fix: "apt-get install crun"}
	if fit := Translate(alpine, a); fit.Fix != "apk add crun" || fit.Reason != a.Reason {
		t.Errorf("%+v", fit)
	}
	if fit := Translate(system.Installer{}, a); fit.Fix != a.Fix {
		t.Errorf("of a host that says nothing: %+v", fit)
	}
	kernel := driver.Availability{Reason: "the kernel has no overlay file system", Fix: "modprobe overlay"}
	if fit := Translate(alpine, kernel); fit.Fix != kernel.Fix {
		t.Errorf("what no package brings: %+v", fit)
	}
}

// runs is a host of a system.
func runs(kernel, release string) *systemtest.Machine {
	m := &systemtest.Machine{Says: map[string]systemtest.Answer{"uname -s": {Stdout: kernel + "\n"},
		"uname -v": {Stdout: "1\n"}}, Files: map[string]string{}}
	if release != "" {
		m.Files["/etc/os-release"] = release
	}
	return m
}
