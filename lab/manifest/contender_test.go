package manifest

import (
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/provision/image"
)

// Roots of systems for which nothing here makes images are folders of the
// user's, or come with an option of the driver.
func TestImagesThatAreFolders(t *testing.T) {
	cat := catalogue()
	cat.Drivers = append(cat.Drivers, DriverEntry{Name: "jail", Image: true, Folder: true,
		Options: []param.Spec{{Name: "root", Kind: param.Text, Default: "copy", Enum: []string{"copy", "zfs"}}},
		OwnRoot: []string{"root=zfs"}},
		DriverEntry{Name: "machine", Image: true, Options: []param.Spec{{Name: "disk", Kind: param.Text}},
			OwnRoot: []string{"disk=*"}})
	for _, c := range []struct{ contender, image, wrong string }{
		{"driver: jail, image: /usr/local/jails/base", "/usr/local/jails/base", ""},
		{"driver: jail, image: debian:bookworm", "debian:bookworm", ""},
		{"driver: jail, root: zfs", "", ""},
		{"driver: jail, root: zfs, image: /usr/local/jails/base", "", `driver jail does not use an image when its ` +
			`options name a root; remove it`},
		{"driver: jail", "", `contender "a" has no image, and driver jail needs one; add image: /path/of/a/root on the host`},
		{"driver: machine", "", `contender "a" has no image, and driver machine needs one; add image: debian:bookworm, or ` +
			`disk: FILE`},
		{"driver: machine, disk: /srv/disk", "", ""},
		{"driver: machine, disk: /srv/disk, image: debian:bookworm", "", "options name a root; remove it"},
		{"driver: jail, image: /usr/../etc", "", `the path "/usr/../etc" is not in its shortest form; write /etc`},
		{"driver: chroot, image: /srv/root", "", `driver chroot does not use a folder as its image; ` +
			`write image: debian:bookworm`},
	} {
		src := "schema: bakeoff/lab/v1\nname: x\ncontenders:\n  - {name: a, " + c.contender +
			"}\nbaseline: a\ncells:\n  - {name: c, workload: crypto, params: {algorithm: sha256}}\n"
		lab, err := Parse("lab.yaml", []byte(src), cat, "")
		switch {
		case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
			t.Errorf("%s: %v, want %q", c.contender, err, c.wrong)
		case c.wrong == "" && err != nil:
			t.Errorf("%s: %v", c.contender, err)
		case c.wrong == "" && lab.Contenders[0].Image != c.image:
			t.Errorf("%s: image %q, want %q", c.contender, lab.Contenders[0].Image, c.image)
		}
	}
}

// A name of which no image can be made is reported at its place. A run has already
// checked its images, so the catalogue that reads it accepts any name.
func TestImagesThatCannotBeMade(t *testing.T) {
	for _, c := range []struct{ image, wrong string }{
		{"debian:bookworm", ""},
		{"debian:suite-of-2031", ""},
		{"python:3.12", ""},
		{"alpine:3.20", ""},
		{"ghcr.io/owner/app:1", ""},
		{"oci:/srv/layout:v1", ""},
		{"rootfs:root.tar.zst", ""},
		{"debian:12", `lab.yaml:4:38: "debian:12" is not an image: "12" is not the name of a suite; did you mean ` +
			`"debian:bookworm"? For the image of the registry write docker.io/library/debian:12`},
		{"debian:12-slim", `lab.yaml:4:38: "debian:12-slim" is not an image: "12-slim" is not the name of a suite; did you ` +
			`mean "debian:bookworm"? For the image of the registry write docker.io/library/debian:12-slim`},
		{"ubuntu:24.04", `lab.yaml:4:38: "ubuntu:24.04" is not an image: "24.04" is not the name of a suite; did you mean ` +
			`"ubuntu:noble"?`},
		{"nginx", `lab.yaml:4:38: "nginx" is not an image: there is no tag and no digest; write nginx:TAG`},
		{"debain:bookworm", `lab.yaml:4:38: "debain:bookworm" is not an image: its name looks misspelled; did you ` +
			`mean "debian:bookworm"?`},
		{"docker-archve:x.tar", `lab.yaml:4:38: "docker-archve:x.tar" is not an image: its name looks misspelled; ` +
			`did you mean "docker-archive:x.tar"?`},
	} {
		src := "schema: bakeoff/lab/v1\nname: x\ncontenders:\n  - {name: a, driver: chroot, image: \"" + c.image +
			"\"}\n  - {name: b, driver: host}\nbaseline: b\ncells:\n" +
			"  - {name: c, workload: crypto, params: {algorithm: sha256}}\n"
		cat := catalogue()
		cat.Image = func(ref string) error { return image.Request{Ref: ref}.Check() }
		_, err := Parse("lab.yaml", []byte(src), cat, "")
		switch {
		case c.wrong == "" && err != nil, c.wrong != "" && (err == nil || !strings.HasPrefix(err.Error(), c.wrong)):
			t.Errorf("%s: %v, want %q", c.image, err, c.wrong)
		case err != nil && strings.Contains(err.Error(), "\n"):
			t.Errorf("%s is reported more than once: %v", c.image, err)
		}
		if cat.Image = nil; c.image == "debian:12" {
			if _, err := Parse("lab.yaml", []byte(src), cat, ""); err != nil {
				t.Errorf("%s in a run that was made before: %v", c.image, err)
			}
		}
	}
}

// Whoever writes the name of another program, or an option beside a driver that
// is mistyped, is told what was meant.
func TestNamesOfOtherPrograms(t *testing.T) {
	cat := catalogue()
	for i, d := range cat.Drivers {
		if d.Name == "qemu" {
			cat.Drivers[i].Also = map[string]string{"kvm": "qemu", "microvm": "qemu, machine: microvm"}
		}
	}
	src := "schema: bakeoff/lab/v1\nname: x\ncontenders:\n  - {name: a, driver: KVM, machin: q35, image: " +
		"debian:bookworm}\n  - {name: b, driver: microvm}\nbaseline: a\ncells:\n  - {name: c, workload: crypto, params: " +
		"{time: [1s, 2s]}}\ndefaults: {quota: 50 %}\n"
	_, err := Parse("lab.yaml", []byte(src), cat, "")
	for _, want := range []string{
		`lab.yaml:4:23: driver is "KVM"; write driver: qemu`,
		`lab.yaml:4:28: unknown key "machin" in contenders; did you mean "machine"?`,
		`lab.yaml:8:48: time is a list; write one value (30s), and for each further value another cell or contender`,
		`lab.yaml:9:19: quota: "50 %" is not a number; write 0.5`,
		`lab.yaml:5:23: driver is "microvm"; write driver: qemu, machine: microvm`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
}

// A setting that a driver's environments cannot have separately is reported at its place.
func TestTuningThatADriverDoesNotTake(t *testing.T) {
	cat := catalogue()
	for i, d := range cat.Drivers {
		if d.Name == "oci" {
			cat.Drivers[i].Tunes = func(name string) error {
				if strings.HasPrefix(name, "net.") {
					return nil
				}
				return fault.WithFix(fault.New(fault.Unsupported, "tuning %s: the kernel is shared", name), "use net.*")
			}
		}
	}
	src := "schema: bakeoff/lab/v1\nname: x\ncontenders:\n  - {name: a, driver: oci, image: debian:bookworm, tuning: " +
		"{net.core.somaxconn: \"16\"}}\n" +
		"  - name: b\n    driver: oci\n    image: debian:bookworm\n    tuning:\n      kernel.sched_child_runs_first: " +
		"\"1\"\nbaseline: a\ncells:\n  - {name: c, workload: crypto, params: {algorithm: sha256}}\n"
	_, err := Parse("lab.yaml", []byte(src), cat, "")
	want := "lab.yaml:9:7: driver oci: tuning kernel.sched_child_runs_first: the kernel is shared; use net.*"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// A value that is nearly right gets the remedy that was meant.
func TestRemedies(t *testing.T) {
	for _, c := range []struct{ contender, cell, want string }{
		{"", ", primary: throughput", `primary is the single value "throughput"; write [throughput], with brackets`},
		{"", ", primary: luck", `primary: "luck" is neither true nor false; write true or false`},
		{", volumes: {/data: {backing: \"file:f2fs\", size: 1GiB}}", "", `backing is "file:f2fs"; write backing: ` +
			`disk, device: /dev/… (`},
		{", volumes: {/data: {backing: \"file:ext3\", size: 1GiB}}", "", `backing is "file:ext3"; did you mean "file:ext4"?`},
	} {
		src := "schema: bakeoff/lab/v1\nname: x\ncontenders:\n  - {name: a, driver: host" + c.contender +
			"}\nbaseline: a\ncells:\n  - {name: c, workload: crypto, params: {algorithm: sha256}" + c.cell + "}\n"
		if _, err := Parse("lab.yaml", []byte(src), catalogue(), ""); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s%s: %v, want %q", c.contender, c.cell, err, c.want)
		}
	}
}

// bakeoff installs packages only in images that it builds.
func TestPackagesOfOtherImages(t *testing.T) {
	for image, want := range map[string]string{"debian:bookworm": "", "alpine:3.20": `installs no packages ` +
		`in the image "alpine:3.20"`,
		"rootfs:/srv/root": "installs no packages", "docker.io/library/debian:bookworm": "installs no packages"} {
		src := "schema: bakeoff/lab/v1\nname: x\ncontenders:\n  - {name: a, driver: chroot, packages: [python3], image: \"" +
			image +
			"\"}\n  - {name: b, driver: host}\nbaseline: b\ncells:\n" +
			"  - {name: c, workload: crypto, params: {algorithm: sha256}}\n"
		_, err := Parse("lab.yaml", []byte(src), catalogue(), "")
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), "lab.yaml:4:") ||
			!strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", image, err, want)
		}
	}
}

// A contender with a fault of its own is not missing, too, and a merge key may hold what a contender lacks.
func TestFaultsWithoutSecondMessages(t *testing.T) {
	const tail = "baseline: a\ncells:\n  - {name: c, workload: crypto}\n"
	for contenders, want := range map[string]string{
		"  - &x {name: a, driver: host}\n  - *x\n": `lab.yaml:4:15: contender "a" is already declared in line 4`,
		"  - {name: a, driver: host}\n  - {<<: {driver: host}, name: b}\n": `lab.yaml:5:6: unknown key "<<" in contenders; ` +
			"merge keys are not supported; write the keys out",
	} {
		_, err := Parse("lab.yaml", []byte("schema: bakeoff/lab/v1\nname: x\ncontenders:\n"+contenders+tail), catalogue(), "")
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "is not a contender") ||
			strings.Contains(err.Error(), "has no driver") {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
