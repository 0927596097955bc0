package alpine

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/provision/image/source"
	"bakeoff/provision/image/source/sourcetest"
)

// releases is a shortened latest-releases.yaml of a mirror, with ARCH, SIZE and SUM.
const releases = `---
-
  title: "Netboot"
  desc: |
    Kernel, initramfs and modloop for
    netboot.
  branch: v3.22
  arch: ARCH
  version: 3.22.0
  flavor: alpine-netboot
  file: alpine-netboot-3.22.0-ARCH.tar.gz
  iso: alpine-netboot-3.22.0-ARCH.tar.gz
  date: 2025-05-30
  size: 334
  sha256: 00
-
  title: "Mini root filesystem"
  desc: |
    Minimal root filesystem.
    For use in containers
    and minimal chroots.
  branch: v3.22
  arch: ARCH
  version: 3.22.0
  flavor: alpine-minirootfs
  file: alpine-minirootfs-3.22.0-ARCH.tar.gz
  iso: alpine-minirootfs-3.22.0-ARCH.tar.gz
  date: 2025-05-30
  time: 15:54:15
  size: SIZE
  sha256: SUM
`

const file = "stands for a tar file"

func document(arch string) string {
	sum := sha256.Sum256([]byte(file))
	return strings.NewReplacer("ARCH", arch, "SIZE", "21", "SUM", hex.EncodeToString(sum[:])).Replace(releases)
}

func Test(t *testing.T) {
	arch := source.Here("x86_64", "aarch64", "x86", "riscv64", "ppc64le", "s390x", "loongarch64", "armv7")
	folder := "/alpine/latest-stable/releases/" + arch
	name := "alpine-minirootfs-3.22.0-" + arch + ".tar.gz"
	sum := sha256.Sum256([]byte(file))
	sourcetest.Run(t, sourcetest.Case{Source: Source{}, Path: "/alpine/latest-stable",
		Documents: map[string]string{folder + "/latest-releases.yaml": document(arch)},
		Files:     map[string]string{folder + "/" + name: file},
		Want: []source.Image{{ID: "alpine-minirootfs:3.22.0", Name: "alpine-minirootfs", Version: "3.22.0", OS: "linux",
			Arch: source.Arches[arch], Type: "tarball", Description: "Alpine Linux 3.22.0", Published: "2025-05-30", Size: 21,
			Files: []source.File{{Name: name, URL: "$SERVER" + folder + "/" + name, Size: 21,
				Sum: "sha256:" + hex.EncodeToString(sum[:])}}}}})
}

func TestParse(t *testing.T) {
	for _, change := range [][2]string{{"file: alpine-minirootfs", "file: ../alpine-minirootfs"}, {"size: 21", "size: -1"},
		{"size: 21", "size: many"}, {"version: 3.22.0\n  flavor: alpine-minirootfs", "flavor: alpine-minirootfs"}} {
		text := strings.Replace(document("x86_64"), change[0], change[1], 1)
		if text == document("x86_64") {
			t.Fatalf("%q is not in the list", change[0])
		}
		all, damaged, err := Parse([]byte(text), "x")
		if !fault.Is(errors.Join(append(damaged, err)...), fault.Invalid) {
			t.Errorf("%q: %v, %v", change[1], all, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(document("x86_64")))
	f.Add([]byte("- flavor: alpine-minirootfs"))
	f.Add([]byte("a: b"))
	f.Fuzz(func(t *testing.T, b []byte) {
		all, damaged, err := Parse(b, "https://host/x")
		if err := errors.Join(append(damaged, err)...); err != nil && !fault.Is(err, fault.Invalid) {
			t.Errorf("%v", err)
		}
		for _, i := range all {
			if len(i.Files) != 1 || !source.ValidFile(i.Files[0].Name) || !source.ValidSum(i.Files[0].Sum) || i.Size <= 0 {
				t.Errorf("%+v", i)
			}
		}
	})
}
